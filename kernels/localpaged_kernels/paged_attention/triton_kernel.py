"""Triton kernels of paged attention: one that attends, one that puts the parts together.

Rows of the matrix are queries × the heads of one KV head, so K and V are read once for all of
them. A sequence may be cut into several parts (split-KV): each leaves the greatest score, the sum
of weights and the weighted sum of V of its tokens. Scores are in units of log2, so that weights
are powers of two. Nothing is read behind a sequence's end, and every address is 64 bits wide.
"""

import triton
import triton.language as tl

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def _find_row(starts_ptr, block, num_rows, first_query, BLOCK_Q: tl.constexpr):
    # Counted from the first query, row r begins at block starts[r] // BLOCK_Q + r: known without
    # reading lengths back to the host. Some blocks at a row's end are empty.
    low = 0
    high = num_rows
    while high - low > 1:
        middle = (low + high) // 2
        if (tl.load(starts_ptr + middle) - first_query) // BLOCK_Q + middle <= block:
            low = middle
        else:
            high = middle
    return low


@triton.jit
def _numbers(raw, dtype: tl.constexpr, IS_SOFT_FP8: tl.constexpr):
    # Every int8 and every fp8 (e4m3) is exact in 16 bits.
    if IS_SOFT_FP8:
        bits = raw.to(tl.uint16)
        magnitude = (bits & 0x7F) << 7
        half = (((bits & 0x80) << 8) | magnitude).to(tl.float16, bitcast=True)
        # The exponent's bias is 7, a half's 15; 0x7f is what is not a number.
        return tl.where(magnitude == 0x3F80, float("nan"), half.to(tl.float32) * 256.0).to(dtype)
    return raw.to(dtype)


@triton.jit
def _merge(
    out_ptr, parts_ptr, tops_ptr, sums_ptr, sinks_ptr, query, head, num_slots,
    HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, DIM: tl.constexpr, SLOTS: tl.constexpr,
    HAS_SINKS: tl.constexpr,
):  # fmt: skip
    slots = tl.arange(0, SLOTS)
    dims = tl.arange(0, DIM)
    is_slot = slots < num_slots
    is_dim = dims < HEAD_DIM
    place = query.to(tl.int64) * HEADS + head
    # Other programs wrote these: past the first cache, which does not see other processors.
    tops = tl.load(
        tops_ptr + place * num_slots + slots, mask=is_slot, other=-float("inf"),
        cache_modifier=".cg",
    )  # fmt: skip
    is_live = tops > -float("inf")
    top = tl.maximum(tl.max(tops, 0), -3.4e38)  # finite where nothing was seen
    if HAS_SINKS:
        sink = tl.load(sinks_ptr + head).to(tl.float32) * LOG2_E
        top = tl.maximum(top, sink)
    shares = tl.where(is_live, tl.exp2(tl.where(is_live, tops, top) - top), 0.0)
    sums = tl.load(
        sums_ptr + place * num_slots + slots, mask=is_live, other=0.0, cache_modifier=".cg"
    )
    total = tl.sum(sums * shares, 0)
    if HAS_SINKS:
        total += tl.exp2(sink - top)
    parts = tl.load(
        parts_ptr + (place * num_slots + slots)[:, None] * HEAD_DIM + dims[None, :],
        mask=is_live[:, None] & is_dim[None, :], other=0.0, cache_modifier=".cg",
    )  # fmt: skip
    out = tl.sum(parts * shares[:, None], 0) / tl.where(total > 0, total, 1.0)
    out = tl.where(total == total, out, float("nan"))
    tl.store(out_ptr + place * HEAD_DIM + dims, out.to(out_ptr.dtype.element_ty), mask=is_dim)


@triton.jit(do_not_specialize=["num_slots", "tops_ptr", "sums_ptr"])  # parts of other tensors
def merge(
    out_ptr, parts_ptr, tops_ptr, sums_ptr, sinks_ptr, num_slots,
    HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, DIM: tl.constexpr, SLOTS: tl.constexpr,
    HAS_SINKS: tl.constexpr,
):  # fmt: skip
    _merge(
        out_ptr, parts_ptr, tops_ptr, sums_ptr, sinks_ptr, tl.program_id(0), tl.program_id(1),
        num_slots, HEADS, HEAD_DIM, DIM, SLOTS, HAS_SINKS,
    )  # fmt: skip


# What changes from step to step: its being 1 or a multiple of 16 must not compile anything anew.
_CHANGING = [
    "num_rows", "first_query", "table_stride", "window", "num_splits", "first_slot", "num_slots",
]  # fmt: skip


@triton.jit(do_not_specialize=_CHANGING)
def attend(
    out_ptr, parts_ptr, tops_ptr, sums_ptr, arrivals_ptr, sinks_ptr,
    queries_ptr, kv_ptr, scales_ptr, tables_ptr, starts_ptr, lens_ptr, skips_ptr, members_ptr,
    num_rows, first_query, table_stride, query_stride, query_head_stride,
    block_stride, token_stride, side_stride, head_stride,
    scale_block_stride, scale_token_stride, scale_side_stride,
    scale, softcap, window, num_splits, first_slot, num_slots,
    HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_Q: tl.constexpr, TILE: tl.constexpr,
    SLOTS: tl.constexpr, IS_ONE_QUERY: tl.constexpr,
    IS_SHARED: tl.constexpr, IS_WHOLE: tl.constexpr, IS_LAST_MERGING: tl.constexpr,
    HAS_SKIPS: tl.constexpr, HAS_WINDOW: tl.constexpr, HAS_SOFTCAP: tl.constexpr,
    HAS_SINKS: tl.constexpr, HAS_SCALES: tl.constexpr, IS_SOFT_FP8: tl.constexpr,
    IS_INTERPRETED: tl.constexpr,
):  # fmt: skip
    block = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    if HEAD_DIM % 16 != 0:
        # Of numbers that come at run time only multiples of 16 are known as such; from what is
        # compiled in the compiler sees that eight numbers of such a head can be read at once, too.
        query_head_stride = HEAD_DIM
        head_stride = HEAD_DIM
    if IS_ONE_QUERY:
        row = block
        start = first_query + row
        num_queries = 1
        first = 0
    else:
        row = _find_row(starts_ptr, block, num_rows, first_query, BLOCK_Q)
        start = tl.load(starts_ptr + row)
        num_queries = tl.load(starts_ptr + row + 1) - start
        first = (block - ((start - first_query) // BLOCK_Q + row)) * BLOCK_Q
        if first >= num_queries:
            return
    length = tl.load(lens_ptr + row)

    rows = tl.arange(0, BLOCK_M)
    dims = tl.arange(0, DIM)
    is_dim = dims < HEAD_DIM
    own = first + rows // GROUP
    is_row = (rows < BLOCK_Q * GROUP) & (own < num_queries)
    head = kv_head * GROUP + rows % GROUP
    if IS_SHARED:
        # A row is a group of sequences and its queries are theirs; the last to come sees no more
        # of what they share than the first.
        query = tl.load(members_ptr + start + own, mask=is_row, other=0)
        position = own * 0 + length - 1
        table_row = tl.load(members_ptr + start).to(tl.int64)
        first_seen = length - 1
        end = length
    else:
        query = start + own
        position = length - num_queries + own
        table_row = row.to(tl.int64)
        first_seen = length - num_queries + first
        end = tl.minimum(first_seen + BLOCK_Q, length)
    query = query.to(tl.int64)
    q = tl.load(
        queries_ptr + query[:, None] * query_stride + head[:, None] * query_head_stride
        + dims[None, :],
        mask=is_row[:, None] & is_dim[None, :], other=0.0,
    )  # fmt: skip

    left = q
    if IS_INTERPRETED:
        # The interpreter multiplies the bits of bfloat16. Wider, the same numbers are exact.
        left = q.to(tl.float32)

    begin = 0
    if HAS_SKIPS:
        begin = tl.load(skips_ptr + row)
    if HAS_WINDOW:
        begin = tl.maximum(begin, first_seen - window + 1)
    first_tile = begin // TILE
    num_tiles = tl.maximum(tl.cdiv(end, TILE) - first_tile, 0)
    if IS_WHOLE:
        low = first_tile
        high = first_tile + num_tiles
    else:
        each = tl.cdiv(num_tiles, num_splits)
        low = first_tile + split * each
        high = tl.minimum(low + each, first_tile + num_tiles)

    top = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, DIM], tl.float32)
    for tile in range(low, high):
        tokens = tile * TILE + tl.arange(0, TILE)
        is_read = (tokens >= begin) & (tokens < end)
        blocks = tl.load(
            tables_ptr + table_row * table_stride + tokens // BLOCK_SIZE, mask=is_read, other=0
        ).to(tl.int64)
        inside = (tokens % BLOCK_SIZE).to(tl.int64)
        places = blocks * block_stride + inside * token_stride + kv_head * head_stride
        k = tl.load(
            kv_ptr + places[None, :] + dims[:, None],
            mask=is_read[None, :] & is_dim[:, None], other=0.0,
        )  # fmt: skip
        scores = tl.dot(left, _numbers(k, left.dtype, IS_SOFT_FP8), input_precision="ieee") * scale
        if HAS_SCALES:
            scale_places = blocks * scale_block_stride + inside * scale_token_stride + kv_head
            k_scales = tl.load(scales_ptr + scale_places, mask=is_read, other=0.0)
            scores *= k_scales[None, :]
        if HAS_SOFTCAP:
            # tanh, whatever the size
            scores = softcap * (2.0 / (1.0 + tl.exp2(scores * (-2.0 * LOG2_E / softcap))) - 1.0)
        scores *= LOG2_E
        is_seen = is_read[None, :] & (tokens[None, :] <= position[:, None])
        if HAS_WINDOW:
            is_seen &= tokens[None, :] > position[:, None] - window
        scores = tl.where(is_seen, scores, -float("inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        # A row that has seen nothing yet keeps zeros instead of inf - inf.
        base = tl.where(new_top > -float("inf"), new_top, 0.0)
        weights = tl.exp2(scores - base[:, None])
        shrink = tl.exp2(top - base)
        total = total * shrink + tl.sum(weights, 1)
        v = tl.load(
            kv_ptr + places[:, None] + side_stride + dims[None, :],
            mask=is_read[:, None] & is_dim[None, :], other=0.0,
        )  # fmt: skip
        if HAS_SCALES:
            v_scales = tl.load(
                scales_ptr + scale_places + scale_side_stride, mask=is_read, other=0.0
            )
            # Scales may be tiny: against the largest of the tile they are safe in half precision.
            most = tl.max(v_scales, 0)
            weights *= (v_scales / tl.where(most > 0, most, 1.0))[None, :]
            added = tl.dot(
                weights.to(q.dtype).to(left.dtype), _numbers(v, left.dtype, IS_SOFT_FP8),
                input_precision="ieee",
            )  # fmt: skip
            acc = acc * shrink[:, None] + added * most
        else:
            acc = acc * shrink[:, None]
            acc = tl.dot(
                weights.to(q.dtype).to(left.dtype), _numbers(v, left.dtype, IS_SOFT_FP8), acc,
                input_precision="ieee",
            )  # fmt: skip
        top = new_top

    if IS_WHOLE:
        if HAS_SINKS:
            sink = tl.load(sinks_ptr + head, mask=is_row, other=0.0).to(tl.float32) * LOG2_E
            new_top = tl.maximum(top, sink)
            shrink = tl.exp2(top - new_top)
            acc *= shrink[:, None]
            total = total * shrink + tl.exp2(sink - new_top)
        out = acc / tl.where(total == 0.0, 1.0, total)[:, None]
        tl.store(
            out_ptr + (query * HEADS + head)[:, None] * HEAD_DIM + dims[None, :],
            out.to(out_ptr.dtype.element_ty), mask=is_row[:, None] & is_dim[None, :],
        )  # fmt: skip
    else:
        places = (query * HEADS + head) * num_slots + first_slot + split
        # What is not a number must not pass for a part that saw nothing.
        top = tl.where(total == total, top, 0.0)
        tl.store(tops_ptr + places, top, mask=is_row)
        tl.store(sums_ptr + places, total, mask=is_row)
        tl.store(
            parts_ptr + places[:, None] * HEAD_DIM + dims[None, :], acc,
            mask=(is_row & (top > -float("inf")))[:, None] & is_dim[None, :],
        )  # fmt: skip
        if IS_LAST_MERGING:
            # All threads' parts are written before the one that counts tells so.
            tl.debug_barrier()
            place = block * tl.num_programs(1) + kv_head
            before = tl.atomic_add(arrivals_ptr + place, 1, sem="acq_rel", scope="gpu")
            if before == num_splits - 1:
                tl.store(arrivals_ptr + place, 0)
                for i in tl.range(tl.minimum(BLOCK_Q, num_queries - first) * GROUP, num_stages=1):
                    _merge(
                        out_ptr, parts_ptr, tops_ptr, sums_ptr, sinks_ptr,
                        start + first + i // GROUP, kv_head * GROUP + i % GROUP,
                        num_slots, HEADS, HEAD_DIM, DIM, SLOTS, HAS_SINKS,
                    )  # fmt: skip
