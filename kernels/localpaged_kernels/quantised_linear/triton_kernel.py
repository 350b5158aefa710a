"""Triton kernels of matrices in 8 and 4 bits: one multiplies few rows, one makes numbers of them.

A program has some outputs and up to 64 rows. It reads the outputs' numbers once, makes them wide in
registers and multiplies; the rows come as columns, so that outputs fill the side of tensor cores
that is long. A word of 16 bits has numbers of one group, a tile of each is multiplied on its own,
so no number changes its thread. Every address of a matrix is 64 bits wide.
"""

import triton
import triton.language as tl

GROUP: tl.constexpr = tl.constexpr(32)


@triton.jit
def _scales(scales_ptr, places, mask, IS_FOUR_BIT: tl.constexpr):
    # In 4 bits a scale and its minimum are one word.
    if IS_FOUR_BIT:
        pairs = tl.load(scales_ptr + places, mask=mask, other=0)
        scale = pairs.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
        minimum = (pairs >> 16).to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32)
    else:
        scale = tl.load(scales_ptr + places, mask=mask, other=0.0).to(tl.float32)
        minimum = scale
    return scale, minimum


@triton.jit
def _part(words, part: tl.constexpr, IS_FOUR_BIT: tl.constexpr):
    # Of each word one of its four unsigned or two signed numbers.
    if IS_FOUR_BIT:
        return (words >> (4 * part)) & 15
    return (words << (8 - 8 * part)) >> 8


@triton.jit
def _wide(raw, scale, minimum, SIZE: tl.constexpr, HAS_MINIMUM: tl.constexpr):
    # SIZE numbers of a group side by side, as many groups as there are scales.
    numbers = tl.reshape(raw.to(tl.float32), [raw.shape[0], raw.shape[1] // SIZE, SIZE])
    numbers = numbers * scale[:, :, None]
    if HAS_MINIMUM:
        numbers += minimum[:, :, None]
    return tl.reshape(numbers, [raw.shape[0], raw.shape[1]])


@triton.jit
def _columns(x_ptr, rows, is_row, columns, width, x_stride, IS_EVEN: tl.constexpr):
    mask = is_row[None, :]
    if not IS_EVEN:
        mask = mask & (columns < width)[:, None]
    return tl.load(x_ptr + rows[None, :] * x_stride + columns[:, None], mask=mask, other=0.0)


# What changes from step to step: its being 1 or a multiple of 16 must not compile anything anew.
@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def project(
    out_ptr, parts_ptr, arrivals_ptr, x_ptr, numbers_ptr, scales_ptr, bias_ptr,
    num_rows, outputs, width, x_stride, row_stride, group_stride, num_splits,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUPS: tl.constexpr,
    IS_FOUR_BIT: tl.constexpr, IS_EVEN: tl.constexpr, IS_WHOLE: tl.constexpr,
    HAS_BIAS: tl.constexpr, IS_INTERPRETED: tl.constexpr,
):  # fmt: skip
    # Neighbours have the same outputs: what one reads of the matrix, the next finds in the cache.
    row_block = tl.program_id(0)
    block = tl.program_id(1)
    split = tl.program_id(2)
    SIZE: tl.constexpr = 8 if IS_FOUR_BIT else 16  # words of a group
    PARTS: tl.constexpr = GROUP // SIZE
    dtype: tl.constexpr = x_ptr.dtype.element_ty
    # The interpreter multiplies the bits of bfloat16. Wider, the same numbers are exact.
    dot_dtype: tl.constexpr = tl.float32 if IS_INTERPRETED else dtype

    outs = block * BLOCK_N + tl.arange(0, BLOCK_N)
    rows = tl.arange(0, BLOCK_M)
    first_row = (row_block * BLOCK_M).to(tl.int64)
    x_ptr += first_row * x_stride
    is_out = outs < outputs
    is_row = rows < num_rows - row_block * BLOCK_M
    num_groups = tl.cdiv(width, GROUP)
    starts = outs.to(tl.int64) * row_stride
    inside = tl.arange(0, GROUPS * SIZE)
    own = tl.arange(0, GROUPS)
    # Places of the words' lowest numbers in a row of x.
    columns = inside // SIZE * GROUP + inside % SIZE

    tiles = tl.cdiv(num_groups, GROUPS)
    each = tl.cdiv(tiles, num_splits)
    low = split * each
    high = tl.minimum(low + each, tiles)
    acc = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    for tile in range(low, high):
        first = tile * GROUPS
        mask = is_out[:, None]
        scale_mask = mask
        if not IS_EVEN:
            mask = mask & (first + inside // SIZE < num_groups)[None, :]
            scale_mask = scale_mask & (first + own < num_groups)[None, :]
        raw = tl.load(
            numbers_ptr + starts[:, None] + (first * SIZE + inside)[None, :], mask=mask, other=0
        )
        scale_places = (first + own).to(tl.int64)[None, :] * group_stride + outs[:, None]
        scale, minimum = _scales(scales_ptr, scale_places, scale_mask, IS_FOUR_BIT)
        for part in tl.static_range(PARTS):
            places = first * GROUP + part * SIZE + columns
            x = _columns(x_ptr, rows, is_row, places, width, x_stride, IS_EVEN)
            numbers = _part(raw, part, IS_FOUR_BIT)
            wide = _wide(numbers, scale, minimum, SIZE, IS_FOUR_BIT).to(dtype)
            acc = tl.dot(wide.to(dot_dtype), x.to(dot_dtype), acc, input_precision="ieee")

    own_rows = first_row * outputs
    places = rows[None, :] * outputs + outs[:, None]
    mask = is_out[:, None] & is_row[None, :]
    if not IS_WHOLE:
        size = num_rows.to(tl.int64) * outputs
        parts_ptr += own_rows
        tl.store(parts_ptr + split * size + places, acc, mask=mask)
        # All threads' parts are written before the one that counts tells so.
        tl.debug_barrier()
        counter = arrivals_ptr + row_block * tl.num_programs(1) + block
        before = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu")
        if before != num_splits - 1:
            return
        tl.store(counter, 0)
        acc = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
        for part in tl.range(num_splits, num_stages=1):
            # Other programs wrote these: past the first cache, which does not see other processors.
            acc += tl.load(
                parts_ptr + part * size + places, mask=mask, other=0.0, cache_modifier=".cg"
            )
    if HAS_BIAS:
        acc += tl.load(bias_ptr + outs, mask=is_out, other=0.0).to(tl.float32)[:, None]
    tl.store(out_ptr + own_rows + places, acc.to(dtype), mask=mask)


@triton.jit(do_not_specialize=["first_row", "num_rows"])
def dequantise(
    out_ptr, rows_ptr, numbers_ptr, scales_ptr,
    first_row, num_rows, width, row_stride, group_stride,
    BLOCK_R: tl.constexpr, GROUPS: tl.constexpr, IS_FOUR_BIT: tl.constexpr,
    HAS_ROWS: tl.constexpr,
):  # fmt: skip
    SIZE: tl.constexpr = 8 if IS_FOUR_BIT else 16  # words of a group
    PARTS: tl.constexpr = GROUP // SIZE
    dtype: tl.constexpr = out_ptr.dtype.element_ty
    targets = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    is_row = targets < num_rows
    if HAS_ROWS:
        sources = tl.load(rows_ptr + targets, mask=is_row, other=0).to(tl.int64)
    else:
        sources = (first_row + targets).to(tl.int64)
    num_groups = tl.cdiv(width, GROUP)
    first = tl.program_id(1) * GROUPS
    inside = tl.arange(0, GROUPS * SIZE)
    own = first + tl.arange(0, GROUPS)
    raw = tl.load(
        numbers_ptr + sources[:, None] * row_stride + (first * SIZE + inside)[None, :],
        mask=is_row[:, None] & (first + inside // SIZE < num_groups)[None, :], other=0,
    )  # fmt: skip
    scale, minimum = _scales(
        scales_ptr, own.to(tl.int64)[None, :] * group_stride + sources[:, None],
        is_row[:, None] & (own < num_groups)[None, :], IS_FOUR_BIT,
    )  # fmt: skip
    columns = first * GROUP + inside // SIZE * GROUP + inside % SIZE
    places = targets.to(tl.int64)[:, None] * width + columns[None, :]
    for part in tl.static_range(PARTS):
        mask = is_row[:, None] & (columns + part * SIZE < width)[None, :]
        wide = _wide(_part(raw, part, IS_FOUR_BIT), scale, minimum, SIZE, IS_FOUR_BIT)
        tl.store(out_ptr + places + part * SIZE, wide.to(dtype), mask=mask)
