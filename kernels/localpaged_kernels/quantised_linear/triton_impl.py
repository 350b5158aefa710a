"""Projections by weights in 8 and 4 bits on a GPU: in one launch, or as 16-bit pieces."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from localpaged_kernels.card import Card, card_of
from localpaged_kernels.launch import Launch
from localpaged_kernels.quantised_linear.reference import GROUP, QuantisedMatrix

FEW_ROWS = 16
"""Rows of the smallest matrix that tensor cores multiply."""

MANY_ROWS = 64
"""Rows of a program where there are more."""

PACKED_ROWS = 256
"""Up to here packed numbers are multiplied, and read again for each MANY_ROWS: of 5 bits that is
fewer bytes than writing and reading 16 once. For more rows pieces of the matrix are made wide."""

PIECE_NUMBERS = 2**24
"""Of a matrix, at a time: few enough for a large card's cache, enough for torch's product."""

PROGRAMS_A_PROCESSOR = 2
"""Programs that keep one processor's memory pipeline busy; more parts only cost."""

MOST_SPLITS = 16
TILES_A_SPLIT = 4
"""A part of fewer tiles is not worth being put together again."""

DEQUANTISED_ROWS = 4
DEQUANTISED_GROUPS = 32


@dataclass(frozen=True, slots=True)
class Shape:
    """How a projection of few rows is laid out: a program's rows, outputs, groups at a time."""

    rows: int
    outputs: int
    groups: int
    num_warps: int
    num_stages: int


def project(
    x: torch.Tensor,
    matrix: QuantisedMatrix,
    bias: torch.Tensor | None = None,
    *,
    arrivals: torch.Tensor,
    stays_packed: bool = False,
) -> torch.Tensor:
    """Do what `reference.project` does; same arguments, same result.

    `arrivals` int32 are counters for `num_counters` of the matrix, zero and left zero. With
    `stays_packed` no piece of the matrix is made wide, however many rows there are.
    """
    out = x.new_empty(x.shape[0], matrix.outputs)
    if stays_packed or x.shape[0] <= PACKED_ROWS:
        plan(out, x, matrix, bias, arrivals=arrivals).run()
        return out
    most = rows_a_piece(matrix.width)
    scratch = x.new_empty(min(most, matrix.outputs), matrix.width)
    for first in range(0, matrix.outputs, most):
        count = min(most, matrix.outputs - first)
        piece = scratch[:count]
        plan_dequantise(piece, matrix, first_row=first).run()
        torch.mm(x, piece.t(), out=out[:, first : first + count])
    return out if bias is None else out.add_(bias)


def rows_of(matrix: QuantisedMatrix, rows: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return rows [count] int64 of a matrix as numbers [count, width]."""
    out = torch.empty(len(rows), matrix.width, dtype=dtype, device=rows.device)
    plan_dequantise(out, matrix, rows=rows).run()
    return out


def rows_a_piece(width: int) -> int:
    """Return how many rows of a matrix are 16-bit numbers at a time, where rows of x are many."""
    return max(PIECE_NUMBERS // width, 1)


def num_counters(outputs: int) -> int:
    """Return how many programs' parts are counted for a matrix at most."""
    return MOST_ROW_BLOCKS * -(-outputs // min(shape.outputs for shape in SHAPES))


def plan(
    out: torch.Tensor,
    x: torch.Tensor,
    matrix: QuantisedMatrix,
    bias: torch.Tensor | None = None,
    *,
    arrivals: torch.Tensor,
    card: Card | None = None,
    num_splits: int | None = None,
) -> Launch:
    """Return the launch that fills `out` [rows, outputs]."""
    from localpaged_kernels.quantised_linear.triton_kernel import project

    rows, width = x.shape
    shape = shape_of(x)
    row_blocks, blocks = -(-rows // shape.rows), -(-matrix.outputs // shape.outputs)
    if num_splits is None:
        card = card or card_of(x.device)
        num_splits = splits_for(row_blocks, blocks, matrix, shape, card)
    is_whole, (words, scales) = num_splits == 1, _words(matrix)
    parts = x.new_empty(0 if is_whole else num_splits * rows * matrix.outputs, dtype=torch.float32)
    return Launch(
        project,
        (row_blocks, blocks, num_splits),
        {
            "out_ptr": out,
            "parts_ptr": parts,
            "arrivals_ptr": arrivals,
            "x_ptr": x,
            "numbers_ptr": words,
            "scales_ptr": scales,
            "bias_ptr": bias,
            "num_rows": rows,
            "outputs": matrix.outputs,
            "width": width,
            "x_stride": x.stride(0),
            "row_stride": words.stride(0),
            "group_stride": scales.stride(0),
            "num_splits": num_splits,
        },
        {
            "BLOCK_M": shape.rows,
            "BLOCK_N": shape.outputs,
            "GROUPS": shape.groups,
            "IS_FOUR_BIT": matrix.is_four_bit,
            "IS_EVEN": width % (shape.groups * GROUP) == 0,
            "IS_WHOLE": is_whole,
            "HAS_BIAS": bias is not None,
            "IS_INTERPRETED": x.device.type == "cpu",
        },
        num_warps=shape.num_warps,
        num_stages=shape.num_stages,
        is_unspilled=True,
    )


def shape_of(x: torch.Tensor) -> Shape:
    """Return how the projection of these rows is laid out."""
    is_wide, is_few = x.dtype == torch.float32, x.shape[0] <= FEW_ROWS
    return SHAPES[2 * is_wide + (not is_few)]


SHAPES = (
    Shape(FEW_ROWS, 64, 4, num_warps=4, num_stages=4),
    Shape(MANY_ROWS, 64, 4, num_warps=4, num_stages=3),
    Shape(FEW_ROWS, 32, 2, num_warps=4, num_stages=2),
    Shape(MANY_ROWS, 32, 2, num_warps=8, num_stages=2),
)
"""For 16-bit numbers and for float32, each for few rows and for more."""


MOST_ROW_BLOCKS = PACKED_ROWS // MANY_ROWS
"""Of rows whose parts are counted; with more there is enough to do without parts."""


def splits_for(
    row_blocks: int, blocks: int, matrix: QuantisedMatrix, shape: Shape, card: Card
) -> int:
    """Return in how many parts the inputs are cut, so that all processors have work."""
    if row_blocks > MOST_ROW_BLOCKS:
        return 1
    idle = PROGRAMS_A_PROCESSOR * card.num_processors // (row_blocks * blocks)
    tiles = -(-matrix.width // (shape.groups * GROUP))
    return max(min(idle, tiles // TILES_A_SPLIT, MOST_SPLITS), 1)


def plan_dequantise(
    out: torch.Tensor,
    matrix: QuantisedMatrix,
    *,
    rows: torch.Tensor | None = None,
    first_row: int = 0,
) -> Launch:
    """Return the launch that fills `out` [count, width] with rows: those, or from one on."""
    from localpaged_kernels.quantised_linear.triton_kernel import dequantise

    count, width = out.shape
    groups, (words, scales) = -(-width // GROUP), _words(matrix)
    return Launch(
        dequantise,
        (-(-count // DEQUANTISED_ROWS), -(-groups // DEQUANTISED_GROUPS)),
        {
            "out_ptr": out,
            "rows_ptr": rows,
            "numbers_ptr": words,
            "scales_ptr": scales,
            "first_row": first_row,
            "num_rows": count,
            "width": width,
            "row_stride": words.stride(0),
            "group_stride": scales.stride(0),
        },
        {
            "BLOCK_R": DEQUANTISED_ROWS,
            "GROUPS": DEQUANTISED_GROUPS,
            "IS_FOUR_BIT": matrix.is_four_bit,
            "HAS_ROWS": rows is not None,
        },
    )


def _words(matrix: QuantisedMatrix) -> tuple[torch.Tensor, torch.Tensor]:
    """Return numbers as words of 16 bits, scales as one word for each group and output."""
    words, scales = matrix.numbers.view(torch.int16), matrix.scales
    return words, scales.view(torch.int32).squeeze(-1) if matrix.is_four_bit else scales
