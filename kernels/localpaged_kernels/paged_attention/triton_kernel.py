"""Triton kernel of paged attention: a program attends for the heads of one KV head.

Rows of the matrix are queries × the heads of one KV head, so K and V are read once for all of
them. A sequence may be cut into several parts (split-KV), see `triton_parts_kernel`. Nothing is
read behind a sequence's end, and every address is 64 bits wide.
"""

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

from localpaged_kernels.paged_attention.triton_parts_kernel import LOG2_E, merge_heads, write


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
    # Every int8 and every fp8 (e4m3) is exact in a half.
    if IS_SOFT_FP8:
        bits = raw.to(tl.uint16)
        magnitude = (bits & 0x7F) << 7
        half = (((bits & 0x80) << 8) | magnitude).to(tl.float16, bitcast=True)
        # The exponent's bias is 7, a half's 15; 0x7f is what is not a number.
        return tl.where(magnitude == 0x3F80, float("nan"), half * 256.0).to(dtype)
    elif raw.dtype == tl.int8:
        # Between 1,024 and 2,048 a half's last bit is 1: so 1,152 + x is its bits and x's, of which
        # the highest is turned. Two subtractions are one instruction; conversions are slow.
        bits = raw.to(tl.uint8, bitcast=True).to(tl.uint16) ^ 0x6480
        return (bits.to(tl.float16, bitcast=True) - 1152.0).to(dtype)
    else:
        return raw.to(dtype)


@triton.jit
def _as_halves(q):
    # Divided by a power of two, which changes no bit of them, queries are at most 2.
    wide = q.to(tl.float32)
    most = tl.max(tl.abs(wide), 1)
    unit = (most.to(tl.int32, bitcast=True) & 0x7F800000).to(tl.float32, bitcast=True)
    unit = tl.where(unit > 0.0, unit, 1.0)
    return (wide / unit[:, None]).to(tl.float16), unit


# What changes from step to step: its being 1 or a multiple of 16 must not compile anything anew.
_CHANGING = [
    "num_rows", "first_query", "table_stride", "window", "num_splits", "first_slot", "num_slots",
    "kv_tokens_ptr",
]  # fmt: skip


@triton.jit(do_not_specialize=_CHANGING)
def attend(
    out_ptr, parts_ptr, tops_ptr, sums_ptr, arrivals_ptr, sinks_ptr,
    queries_ptr, kv_ptr, scales_ptr, tables_ptr, starts_ptr, lens_ptr, skips_ptr, members_ptr,
    kv_tokens_ptr, num_rows, first_query, table_stride, query_stride, query_head_stride,
    block_stride, token_stride, side_stride, head_stride,
    scale_block_stride, scale_token_stride, scale_side_stride,
    scale, softcap, window, num_splits, programs_a_head, first_slot, num_slots,
    HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_Q: tl.constexpr, TILE: tl.constexpr,
    GROUP_ROWS: tl.constexpr, AT_ONCE: tl.constexpr, IS_ONE_QUERY: tl.constexpr,
    IS_BALANCED: tl.constexpr, IS_SHARED: tl.constexpr, IS_WHOLE: tl.constexpr,
    IS_LAST_MERGING: tl.constexpr, HAS_SKIPS: tl.constexpr, HAS_WINDOW: tl.constexpr,
    HAS_SOFTCAP: tl.constexpr, HAS_SINKS: tl.constexpr, HAS_SCALES: tl.constexpr,
    IS_SOFT_FP8: tl.constexpr, IS_INTERPRETED: tl.constexpr, IS_CHAINED: tl.constexpr,
):  # fmt: skip
    if IS_CHAINED:
        # The next launch may take its places; what this one reads must be there.
        gdc_launch_dependents()
        gdc_wait()
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
    begin = 0
    if HAS_SKIPS:
        begin = tl.load(skips_ptr + row)
    if HAS_WINDOW:
        begin = tl.maximum(begin, first_seen - window + 1)
    first_tile = begin // TILE
    num_tiles = tl.maximum(tl.cdiv(end, TILE) - first_tile, 0)
    num_parts = num_splits
    low = first_tile
    high = first_tile + num_tiles
    if not IS_WHOLE:
        if IS_BALANCED:
            # As many parts as are the sequence's share of all tokens, so that a long one among
            # short ones does not keep all of them waiting.
            all_tokens = tl.load(kv_tokens_ptr).to(tl.float32)
            num_parts = (length.to(tl.float32) * programs_a_head / all_tokens).to(tl.int32)
            num_parts = tl.maximum(tl.minimum(num_parts, tl.minimum(num_splits, num_tiles)), 1)
        each = tl.cdiv(num_tiles, num_parts)
        if IS_BALANCED:
            num_parts = tl.cdiv(num_tiles, each)
            if IS_LAST_MERGING:
                if split >= num_parts:
                    return
        low += split * each
        high = tl.minimum(low + each, high)

    query = query.to(tl.int64)
    q = tl.load(
        queries_ptr + query[:, None] * query_stride + head[:, None] * query_head_stride
        + dims[None, :],
        mask=is_row[:, None] & is_dim[None, :], other=0.0,
    )  # fmt: skip

    # What is in 8 bits becomes halves sooner than bfloat16, so queries do as well.
    are_halves: tl.constexpr = HAS_SCALES and q.dtype == tl.bfloat16
    dot_dtype: tl.constexpr = tl.float16 if are_halves else q.dtype
    left = q
    if are_halves:
        left, unit = _as_halves(q)
    if IS_INTERPRETED:
        # The interpreter multiplies the bits of bfloat16. Wider, the same numbers are exact.
        left = left.to(tl.float32)

    # Where a few rows are all warps', sums of weights stay apart by column: put together tile by
    # tile they would be exchanged between the warps each time.
    is_apart: tl.constexpr = BLOCK_M < 64
    # Blocks fit into a tile: where a token lies in its block is the same for all tiles.
    is_even: tl.constexpr = TILE % BLOCK_SIZE == 0
    top = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M, TILE] if is_apart else [BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, DIM], tl.float32)
    columns = tl.arange(0, TILE)
    table = tables_ptr + table_row * table_stride
    inside = columns % BLOCK_SIZE
    # Within a block 32 bits suffice.
    place = (inside * token_stride + kv_head * head_stride)[:, None] + dims[None, :]
    factor = scale if HAS_SOFTCAP else scale * LOG2_E
    for tile in range(low, high):
        tokens = tile * TILE + columns
        is_read = tokens < end
        if HAS_SKIPS or HAS_WINDOW:
            is_read &= tokens >= begin
        if is_even:
            ordinals = tile * (TILE // BLOCK_SIZE) + columns // BLOCK_SIZE
        else:
            ordinals = tokens // BLOCK_SIZE
            inside = tokens % BLOCK_SIZE
            place = (inside * token_stride + kv_head * head_stride)[:, None] + dims[None, :]
        blocks = tl.load(table + ordinals, mask=is_read, other=0).to(tl.int64)
        # K and V are read alike, so that their addresses are computed once.
        keys = (kv_ptr + blocks * block_stride)[:, None] + place
        is_there = is_read[:, None]
        if HEAD_DIM != DIM:
            is_there &= is_dim[None, :]
        k = tl.load(keys, mask=is_there, other=0.0)
        scores = tl.dot(
            left, tl.trans(_numbers(k, left.dtype, IS_SOFT_FP8)), input_precision="ieee"
        )
        if HAS_SCALES:
            scale_places = blocks * scale_block_stride + inside * scale_token_stride + kv_head
            k_scales = tl.load(scales_ptr + scale_places, mask=is_read, other=0.0)
            scores *= (k_scales * factor)[None, :]
            if are_halves:
                scores *= unit[:, None]
        else:
            scores *= factor
        if HAS_SOFTCAP:
            # tanh, whatever the size
            scores = softcap * (2.0 / (1.0 + tl.exp2(scores * (-2.0 * LOG2_E / softcap))) - 1.0)
            scores *= LOG2_E
        is_seen = is_read[None, :]
        if not (IS_ONE_QUERY or IS_SHARED):  # those see all that is read
            is_seen &= tokens[None, :] <= position[:, None]
        if HAS_WINDOW:
            is_seen &= tokens[None, :] > position[:, None] - window
        scores = tl.where(is_seen, scores, -float("inf"))
        new_top = tl.maximum(top, tl.max(scores, 1))
        # A row that has seen nothing yet keeps zeros instead of inf - inf.
        base = tl.where(new_top > -float("inf"), new_top, 0.0)
        weights = tl.exp2(scores - base[:, None])
        shrink = tl.exp2(top - base)
        if is_apart:
            total = total * shrink[:, None] + weights
        else:
            total = total * shrink + tl.sum(weights, 1)
        v = tl.load(keys + side_stride, mask=is_there, other=0.0)
        if HAS_SCALES:
            v_scales = tl.load(
                scales_ptr + scale_places + scale_side_stride, mask=is_read, other=0.0
            )
            # Scales may be tiny: against the largest of the tile they are safe in half precision.
            most = tl.max(v_scales, 0)
            weights *= (v_scales / tl.where(most > 0, most, 1.0))[None, :]
            added = tl.dot(
                weights.to(dot_dtype).to(left.dtype), _numbers(v, left.dtype, IS_SOFT_FP8),
                input_precision="ieee",
            )  # fmt: skip
            acc = acc * shrink[:, None] + added * most
        else:
            acc = acc * shrink[:, None]
            acc = tl.dot(
                weights.to(dot_dtype).to(left.dtype), _numbers(v, left.dtype, IS_SOFT_FP8), acc,
                input_precision="ieee",
            )  # fmt: skip
        top = new_top
    if is_apart:
        total = tl.sum(total, 1)

    is_done = IS_WHOLE
    if IS_BALANCED and IS_LAST_MERGING:
        is_done = num_parts == 1
    if is_done:
        write(
            out_ptr, sinks_ptr, query, head, is_row, top, total, acc,
            HEADS, HEAD_DIM, DIM, HAS_SINKS,
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
            counter = arrivals_ptr + block * tl.num_programs(1) + kv_head
            before = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu")
            if before == num_parts - 1:
                tl.store(counter, 0)
                merge_heads(
                    out_ptr, parts_ptr, tops_ptr, sums_ptr, sinks_ptr, start.to(tl.int64),
                    kv_head * GROUP, num_slots, num_parts if IS_BALANCED else num_slots,
                    HEADS, GROUP, GROUP_ROWS, HEAD_DIM, DIM, AT_ONCE, HAS_SINKS,
                )  # fmt: skip
