"""Triton kernels that end attention: a whole sequence is written, parts of one are put together.

A part is the greatest score, the sum of weights and the weighted sum of V of its tokens. Either a
launch of its own puts parts together (`merge`) or the last part of a decode to be ready
(`merge_heads`). Scores are in units of log2, so that weights are powers of two.
"""

import triton
import triton.language as tl

LOG2_E: tl.constexpr = tl.constexpr(1.4426950408889634)


@triton.jit
def write(
    out_ptr, sinks_ptr, query, head, is_row, top, total, acc,
    HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, DIM: tl.constexpr, HAS_SINKS: tl.constexpr,
):  # fmt: skip
    dims = tl.arange(0, DIM)
    if HAS_SINKS:
        sink = tl.load(sinks_ptr + head, mask=is_row, other=0.0).to(tl.float32) * LOG2_E
        new_top = tl.maximum(top, sink)
        shrink = tl.exp2(top - new_top)
        acc *= shrink[:, None]
        total = total * shrink + tl.exp2(sink - new_top)
    out = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(
        out_ptr + (query * HEADS + head)[:, None] * HEAD_DIM + dims[None, :],
        out.to(out_ptr.dtype.element_ty), mask=is_row[:, None] & (dims < HEAD_DIM)[None, :],
    )  # fmt: skip


@triton.jit
def merge_heads(
    out_ptr, parts_ptr, tops_ptr, sums_ptr, sinks_ptr, query, first_head, num_slots, num_parts,
    HEADS: tl.constexpr, GROUP: tl.constexpr, GROUP_ROWS: tl.constexpr, HEAD_DIM: tl.constexpr,
    DIM: tl.constexpr, AT_ONCE: tl.constexpr, HAS_SINKS: tl.constexpr,
):  # fmt: skip
    # All heads of one KV head together, and of each as many parts at once as registers hold: what
    # is waited for is memory, so one after the other would take as many times as long. Parts come
    # first, so that those of a head and of its numbers are one thread's.
    rows = tl.arange(0, GROUP_ROWS)
    dims = tl.arange(0, DIM)
    is_row = rows < GROUP
    places = (query * HEADS + first_head + rows) * num_slots
    top = tl.full([GROUP_ROWS], -float("inf"), tl.float32)
    total = tl.zeros([GROUP_ROWS], tl.float32)
    acc = tl.zeros([GROUP_ROWS, DIM], tl.float32)
    for first in tl.range(0, num_parts, AT_ONCE, num_stages=1):
        slots = first + tl.arange(0, AT_ONCE)
        own = places[None, :] + slots[:, None]
        mask = is_row[None, :] & (slots < num_parts)[:, None]
        # Other programs wrote these: past the first cache, which does not see other processors.
        tops = tl.load(tops_ptr + own, mask=mask, other=-float("inf"), cache_modifier=".cg")
        sums = tl.load(sums_ptr + own, mask=mask, other=0.0, cache_modifier=".cg")
        parts = tl.load(
            parts_ptr + own[:, :, None] * HEAD_DIM + dims[None, None, :],
            mask=mask[:, :, None] & (dims < HEAD_DIM)[None, None, :], other=0.0,
            cache_modifier=".cg",
        )  # fmt: skip
        is_live = tops > -float("inf")
        new_top = tl.maximum(top, tl.max(tops, 0))
        base = tl.where(new_top > -float("inf"), new_top, 0.0)
        shares = tl.where(is_live, tl.exp2(tops - base[None, :]), 0.0)
        shrink = tl.exp2(top - base)
        total = total * shrink + tl.sum(tl.where(is_live, sums, 0.0) * shares, 0)
        # A part that saw nothing left its sum of V as it was, which may be anything.
        seen = tl.where(is_live[:, :, None], parts, 0.0) * shares[:, :, None]
        acc = acc * shrink[:, None] + tl.sum(seen, 0)
        top = new_top
    write(
        out_ptr, sinks_ptr, query + rows * 0, first_head + rows, is_row, top, total, acc,
        HEADS, HEAD_DIM, DIM, HAS_SINKS,
    )  # fmt: skip


@triton.jit(do_not_specialize=["num_slots", "tops_ptr", "sums_ptr"])  # parts of other tensors
def merge(
    out_ptr, parts_ptr, tops_ptr, sums_ptr, sinks_ptr, num_slots,
    HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, DIM: tl.constexpr, SLOTS: tl.constexpr,
    HAS_SINKS: tl.constexpr,
):  # fmt: skip
    query = tl.program_id(0)
    head = tl.program_id(1)
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
