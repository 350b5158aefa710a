"""Operators: what a decoder's layer computes beside its linears, on one kind of device.

The decoder and the KV storage name no device. They are given one of these values: torch's, which
is the CPU's path, or Triton's, whose kernels run on a GPU and, interpreted, on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
import torch.nn.functional as F

from localpaged.decoder_config import Activation
from localpaged.engine.rope import RopeTable, rotate
from localpaged_kernels import AttentionBatch, copy_blocks, paged_attention, write_kv


@dataclass(frozen=True, slots=True)
class Angles:
    """Cosines and signed sines of a step's tokens.

    Where `positions` [tokens] is None they are gathered, [tokens, 1, head_dim], else they are whole
    tables [positions, head_dim] and each token has its row in them.
    """

    cos: torch.Tensor
    sin: torch.Tensor
    positions: torch.Tensor | None = None


class Attend(Protocol):
    """Attention through block tables; see `paged_attention.reference`."""

    def __call__(
        self,
        queries: torch.Tensor,
        kv: torch.Tensor,
        batch: AttentionBatch,
        /,
        *,
        scale: float,
        window: int | None = None,
        kv_scales: torch.Tensor | None = None,
        softcap: float | None = None,
        sinks: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return attention like queries [tokens, heads, head_dim]."""


class RopeAndWrite(Protocol):
    """Normalises and rotates queries and keys, writes K and V into slots; see `rope_write`."""

    def __call__(
        self,
        qkv: torch.Tensor,
        kv: torch.Tensor,
        slots: torch.Tensor,
        angles: Angles,
        *,
        scales: torch.Tensor | None,
        q_norm: torch.Tensor | None,
        k_norm: torch.Tensor | None,
        eps: float,
    ) -> torch.Tensor:
        """Return rotated queries of qkv [tokens, heads + 2 · kv_heads, head_dim]."""


class AddRmsNorm(Protocol):
    """Adds a residual and normalises the sum."""

    def __call__(
        self,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        weight: torch.Tensor | None,
        *,
        eps: float,
        x_weight: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the norm of x + residual, and that sum, both like x [rows, hidden].

        With an `x_weight` what is added is the norm of x, multiplied by it.
        """


class StepAngles(Protocol):
    """Looks up what all layers' rotations of a step take."""

    def __call__(self, rope: RopeTable, positions: torch.Tensor, /) -> Angles:
        """Return the angles of tokens at positions [tokens] int64."""


class RmsNorm(Protocol):
    """The norm alone."""

    def __call__(self, x: torch.Tensor, weight: torch.Tensor | None, *, eps: float) -> torch.Tensor:
        """Return the norm of x [rows, hidden]."""


class Gate(Protocol):
    """SwiGLU or GeGLU."""

    def __call__(self, gate_up: torch.Tensor, activation: Activation, /) -> torch.Tensor:
        """Return act(g) · u [rows, width] of [rows, 2 · width], g first; may write over it."""


class ProjectFew(Protocol):
    """Projects a row or two by a dense matrix; see `few_rows.reference`."""

    def __call__(
        self,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None = None,
        *,
        residual: torch.Tensor | None = None,
        norm: torch.Tensor | None = None,
        eps: float = 0.0,
        gate: Activation | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the projection [rows, outputs] of x [rows, width], and what was normalised."""


class CopyBlocks(Protocol):
    """Copies whole blocks, all reads before all writes."""

    def __call__(
        self, kv: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor, /, *, is_apart: bool
    ) -> None:
        """Copy blocks of kv [layers, blocks, ...]; ids [copies] int64, no target twice.

        `is_apart` tells that none is both read and written.
        """


class GatherBlocks(Protocol):
    """Puts blocks into one piece."""

    def __call__(self, kv: torch.Tensor, sources: torch.Tensor, /) -> torch.Tensor:
        """Return blocks of kv [layers, blocks, ...] as a piece [copies, layers, ...]."""


class ScatterBlocks(Protocol):
    """Takes a piece apart into blocks."""

    def __call__(self, kv: torch.Tensor, targets: torch.Tensor, piece: torch.Tensor, /) -> None:
        """Write a piece [copies, layers, ...] into blocks of kv; no target twice."""


@dataclass(frozen=True, slots=True)
class Operators:
    """One device's way of computing. `name` is how the program tells it.

    `rope_dtype` is what tables of angles are kept in; None for the dtype that is computed in. Where
    there is a `project_few` it projects up to `most_few` rows, norm before or gate behind included.
    """

    name: str
    attend: Attend
    angles: StepAngles
    rope_and_write: RopeAndWrite
    add_rms_norm: AddRmsNorm
    rms_norm: RmsNorm
    gate: Gate
    copy_blocks: CopyBlocks
    gather_blocks: GatherBlocks
    scatter_blocks: ScatterBlocks
    rope_dtype: torch.dtype | None = None
    project_few: ProjectFew | None = None
    most_few: int = 0


def torch_operators() -> Operators:
    """Return the operators of the CPU."""
    return Operators(
        name="torch",
        attend=paged_attention,
        angles=_gathered_angles,
        rope_and_write=_rope_and_write,
        add_rms_norm=_add_rms_norm,
        rms_norm=_rms_norm,
        gate=_gate,
        copy_blocks=_copy_blocks,
        gather_blocks=_gather_blocks,
        scatter_blocks=_scatter_blocks,
    )


def triton_operators(*, is_last_merging: bool = True, is_chained: bool = False) -> Operators:
    """Return the operators of a GPU, each a kernel's launch or a few.

    With `is_last_merging` the last part of a decode to be ready puts the parts together, in place
    of a second launch. Launches that are chained begin while the ones in front of them end, which
    nobody has measured yet. Triton is imported when the first of them is called.
    """
    from localpaged_kernels.few_rows import triton_impl as few_rows
    from localpaged_kernels.gated.triton_impl import gated
    from localpaged_kernels.kv_cache import triton_impl as blocks
    from localpaged_kernels.norm.triton_impl import add_rms_norm
    from localpaged_kernels.paged_attention import triton_impl as attention
    from localpaged_kernels.rope_write.triton_impl import rope_write

    def write(
        qkv: torch.Tensor,
        kv: torch.Tensor,
        slots: torch.Tensor,
        angles: Angles,
        *,
        scales: torch.Tensor | None,
        q_norm: torch.Tensor | None,
        k_norm: torch.Tensor | None,
        eps: float,
    ) -> torch.Tensor:
        assert angles.positions is not None
        return rope_write(
            qkv,
            kv,
            slots,
            positions=angles.positions,
            cos=angles.cos,
            sin=angles.sin,
            scales=scales,
            q_norm=q_norm,
            k_norm=k_norm,
            eps=eps,
            is_chained=is_chained,
        )

    def gather(kv: torch.Tensor, sources: torch.Tensor) -> torch.Tensor:
        piece = kv.new_empty(len(sources), kv.shape[0], *kv.shape[2:])
        blocks.plan(piece.transpose(0, 1), kv, source_ids=sources).run()
        return piece

    return Operators(
        name="triton",
        attend=partial(
            attention.paged_attention, is_last_merging=is_last_merging, is_chained=is_chained
        ),
        angles=lambda rope, positions: Angles(rope.cos, rope.sin, positions),
        rope_and_write=write,
        add_rms_norm=add_rms_norm,
        rms_norm=lambda x, weight, *, eps: add_rms_norm(x, None, weight, eps=eps)[0],
        gate=gated,
        copy_blocks=blocks.copy_blocks,
        gather_blocks=gather,
        scatter_blocks=lambda kv, targets, piece: blocks.scatter_blocks(
            kv, targets, piece.transpose(0, 1)
        ),
        rope_dtype=torch.float32,
        project_few=partial(few_rows.project, is_chained=is_chained),
        most_few=few_rows.MOST_ROWS,
    )


def _gathered_angles(rope: RopeTable, positions: torch.Tensor) -> Angles:
    return Angles(*rope.at(positions))


def _rope_and_write(
    qkv: torch.Tensor,
    kv: torch.Tensor,
    slots: torch.Tensor,
    angles: Angles,
    *,
    scales: torch.Tensor | None,
    q_norm: torch.Tensor | None,
    k_norm: torch.Tensor | None,
    eps: float,
) -> torch.Tensor:
    num_kv = kv.shape[3]
    keys_end = qkv.shape[1] - num_kv
    num_q = keys_end - num_kv
    queries_keys, values = qkv[:, :keys_end], qkv[:, keys_end:]
    if q_norm is not None and k_norm is not None:
        queries, keys = queries_keys[:, :num_q], queries_keys[:, num_q:]
        queries_keys = torch.cat(
            (_rms_norm(queries, q_norm, eps=eps), _rms_norm(keys, k_norm, eps=eps)), dim=1
        )
    rotated = rotate(queries_keys, angles.cos, angles.sin)
    write_kv(kv, rotated[:, num_q:], values, slots, scales=scales)
    return rotated[:, :num_q]


def _add_rms_norm(
    x: torch.Tensor,
    residual: torch.Tensor | None,
    weight: torch.Tensor | None,
    *,
    eps: float,
    x_weight: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    if x_weight is not None:
        x = _rms_norm(x, x_weight, eps=eps)
    total = x if residual is None else residual + x
    return _rms_norm(total, weight, eps=eps), total


def _rms_norm(x: torch.Tensor, weight: torch.Tensor | None, *, eps: float) -> torch.Tensor:
    return F.rms_norm(x, x.shape[-1:], weight, eps)


def _gate(gate_up: torch.Tensor, activation: Activation) -> torch.Tensor:
    gate, up = gate_up.chunk(2, dim=-1)
    opened = F.silu(gate) if activation == "silu" else F.gelu(gate, approximate="tanh")
    return opened.mul_(up)


def _gather_blocks(kv: torch.Tensor, sources: torch.Tensor) -> torch.Tensor:
    return bits_of(kv).transpose(0, 1).index_select(0, sources).view(kv.dtype)


def _scatter_blocks(kv: torch.Tensor, targets: torch.Tensor, piece: torch.Tensor) -> None:
    bits_of(kv).index_copy_(1, targets, bits_of(piece).transpose(0, 1))


def _copy_blocks(
    kv: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor, *, is_apart: bool
) -> None:
    del is_apart  # torch reads first anyway
    copy_blocks(bits_of(kv), sources, targets)


def bits_of(numbers: torch.Tensor) -> torch.Tensor:
    """Return a view of 8-bit numbers as whole ones: torch knows no indexes of fp8."""
    return numbers.view(torch.int8) if numbers.dtype.itemsize == 1 else numbers
