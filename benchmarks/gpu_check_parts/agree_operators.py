"""Comparisons of the smaller operators with their references: writes, copies, norms, gates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch

from gpu_check_parts.comparing import equal, share_of_tolerance
from localpaged_kernels.few_rows import reference as few_reference
from localpaged_kernels.few_rows import triton_impl as few_triton
from localpaged_kernels.gated import reference as gated_reference
from localpaged_kernels.gated import triton_impl as gated_triton
from localpaged_kernels.kv_cache import reference as blocks_reference
from localpaged_kernels.kv_cache import triton_impl as blocks_triton
from localpaged_kernels.norm import reference as norm_reference
from localpaged_kernels.norm import triton_impl as norm_triton
from localpaged_kernels.rope_write import reference as write_reference
from localpaged_kernels.rope_write import triton_impl as write_triton

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
INT8, FP8 = torch.int8, torch.float8_e4m3fn
ROUNDING = {FP32: 2e-5, BF16: 2e-2, FP16: 2e-3}
STEPS_OFF = {INT8: 2.1, FP8: 32.1}
"""Scales that an 8-bit number may be off: the sum it was scaled by is rounded in another order."""

Compare = Callable[[torch.device], float]


def cases(*, is_tiny: bool) -> dict[str, dict[str, Compare]]:
    """Return comparisons by operator and name."""
    dtypes = (BF16,) if is_tiny else (BF16, FP16, FP32)
    stored = (None, INT8) if is_tiny else (None, INT8, FP8)
    dims = (64,) if is_tiny else (64, 80, 96, 112, 128, 256)
    hidden = (64,) if is_tiny else (576, 1024, 2560, 4096)
    width = 48 if is_tiny else 9728
    return {
        "norm, rotation and write": {
            f"{_name(dtype)} into {_name(kv_dtype or dtype)}, heads of {dim}": partial(
                _write, dtype, kv_dtype, dim
            )
            for dtype in dtypes
            for kv_dtype in stored
            for dim in (dims if dtype is BF16 else dims[-2:])
        },
        "block copies": {
            f"{_name(dtype)}, {how}": partial(_copy, dtype, how)
            for dtype in (BF16, FP32, INT8, FP8)[: 1 if is_tiny else None]
            for how in ("read before written", "apart", "out and back")
        },
        "norm": {
            f"{_name(dtype)}, {size}{', residual' * has_residual}": partial(
                _norm, dtype, size, has_residual
            )
            for dtype in dtypes
            for size in hidden
            for has_residual in (True, False)
        },
        "gates": {
            f"{gate}, {_name(dtype)}": partial(_gate, gate, dtype, width)
            for dtype in dtypes
            for gate in ("silu", "gelu", "gelu_tanh")
        },
        "projections of a row or two": {
            f"{_name(dtype)}, {rows} of {size}, {how}": partial(_project, rows, dtype, size, how)
            for dtype in dtypes
            for rows in (1, 2)
            for size in hidden[-2:]
            for how in ("plain", "norm and residual", "norm and gate")
        },
    }


def far_cases() -> dict[str, Compare]:
    """Return the copy whose addresses are beyond 2^31 words: it takes 16 GiB."""
    return {"beyond 2^31 words": _copy_far}


FAR_COPY_BYTES = 2**34 + 2**20


def _write(
    dtype: torch.dtype, kv_dtype: torch.dtype | None, dim: int, device: torch.device
) -> float:
    generator = torch.Generator().manual_seed(dim)
    heads, kv_heads, tokens = 4, 2, 5
    angles = torch.outer(torch.arange(50.0), 1e4 ** -(torch.arange(0, dim, 2) / dim))
    weights = torch.rand(2, dim, generator=generator).to(dtype) + 0.5
    qkv = torch.randn(tokens, heads + 2 * kv_heads, dim, generator=generator).to(dtype) * 3
    slots = torch.tensor([17, 95, 0, 64, 18])
    positions = torch.tensor([0, 7, 49, 3, 11])
    cos = angles.cos().repeat(1, 2)
    sin = torch.cat((-angles.sin(), angles.sin()), -1)
    results = []
    for write, place in (
        (write_triton.rope_write, device),
        (write_reference.rope_write, torch.device("cpu")),
    ):
        kv = torch.zeros(6, 16, 2, kv_heads, dim, dtype=kv_dtype or dtype, device=place)
        scales = None if kv_dtype is None else torch.zeros(kv.shape[:-1], device=place)
        queries = write(
            qkv.to(place),
            kv,
            slots.to(place),
            positions=positions.to(place),
            cos=cos.to(place),
            sin=sin.to(place),
            scales=scales,
            q_norm=weights[0].to(place),
            k_norm=weights[1].to(place),
            eps=1e-6,
        )
        results.append((queries, kv.cpu().float(), None if scales is None else scales.cpu()))
    (queries, kv, scales), (want_queries, want_kv, want_scales) = results
    off = ROUNDING[dtype]
    error = share_of_tolerance(queries, want_queries, absolute=off, relative=off)
    if kv_dtype is None or scales is None or want_scales is None:
        return max(error, share_of_tolerance(kv, want_kv, absolute=off, relative=off))
    error = max(error, share_of_tolerance(scales, want_scales, absolute=1e-9, relative=1e-2))
    difference = (kv * scales.unsqueeze(-1) - want_kv * want_scales.unsqueeze(-1)).abs()
    steps = (difference / want_scales.unsqueeze(-1).clamp(min=1e-30)).max() / STEPS_OFF[kv_dtype]
    return max(error, float(steps.nan_to_num(nan=float("inf"))))


def _copy(dtype: torch.dtype, how: str, device: torch.device) -> float:
    generator = torch.Generator().manual_seed(3)
    pool = torch.randint(0, 120, (3, 7, 16, 2, 2, 64), generator=generator).to(dtype)
    kv = pool.to(device)
    plain = pool.view(torch.int8).clone() if dtype.itemsize == 1 else pool.clone()
    sources, targets = torch.tensor([2, 3, 0]), torch.tensor([3, 4, 2])
    if how == "apart":
        targets = torch.tensor([5, 1, 6])
    ids = sources.to(device), targets.to(device)
    if how == "out and back":
        piece = blocks_triton.gather_blocks(kv, ids[0])
        blocks_triton.scatter_blocks(kv, ids[1], piece)
    else:
        blocks_triton.copy_blocks(kv, *ids, is_apart=how == "apart")
    blocks_reference.copy_blocks(plain, sources, targets)
    return equal(kv, plain)


def _copy_far(device: torch.device) -> float:
    block_bytes = 2**16
    num_blocks = FAR_COPY_BYTES // block_bytes
    kv = torch.zeros(1, num_blocks, block_bytes, dtype=torch.int8, device=device)
    kv[0, 1] = torch.arange(block_bytes, device=device).to(torch.int8)
    ids = torch.tensor([1], device=device), torch.tensor([num_blocks - 1], device=device)
    blocks_triton.copy_blocks(kv, *ids, is_apart=True)
    return equal(kv[0, -1], kv[0, 1])


def _norm(dtype: torch.dtype, hidden: int, has_residual: bool, device: torch.device) -> float:
    x, residual = _fenced(5, hidden, dtype, seed=1), _fenced(5, hidden, dtype, seed=2)
    weight = torch.linspace(-2, 2, hidden).to(dtype)
    added = residual if has_residual else None
    got, total = norm_triton.add_rms_norm(
        x.to(device),
        None if added is None else added.to(device),
        weight.to(device),
        eps=1e-6,
    )
    want, want_total = norm_reference.add_rms_norm(x, added, weight, eps=1e-6)
    off = ROUNDING[dtype]
    return max(
        share_of_tolerance(got, want, absolute=off, relative=off),
        # The interpreter cuts what does not fit into bfloat16 off.
        share_of_tolerance(total, want_total, absolute=1e-9, relative=2**-7),
    )


def _gate(
    gate: gated_reference.Gate, dtype: torch.dtype, width: int, device: torch.device
) -> float:
    gate_up = _fenced(5, 2 * width, dtype, seed=4)
    got = gated_triton.gated(gate_up.to(device), gate)
    off = ROUNDING[dtype]
    return share_of_tolerance(got, gated_reference.gated(gate_up, gate), absolute=off, relative=off)


def _project(rows: int, dtype: torch.dtype, width: int, how: str, device: torch.device) -> float:
    x, residual = _fenced(rows, width, dtype, seed=5), _fenced(rows, width, dtype, seed=6)
    weight = (_fenced(80, width, dtype, seed=7) * width**-0.5 / 3).contiguous()
    norm = torch.rand(width, generator=torch.Generator().manual_seed(8)).to(dtype) + 0.5
    gate: gated_reference.Gate | None = "silu" if "gate" in how else None
    tensors = {"norm": norm if "norm" in how else None}
    tensors["residual"] = residual if "residual" in how else None
    moved = {name: None if t is None else t.to(device) for name, t in tensors.items()}
    got, _ = few_triton.project(x.to(device), weight.to(device), **moved, eps=1e-6, gate=gate)
    want, _ = few_reference.project(x, weight, **tensors, eps=1e-6, gate=gate)
    off = ROUNDING[dtype] * 2
    return share_of_tolerance(got, want, absolute=off, relative=off)


def _fenced(rows: int, columns: int, dtype: torch.dtype, *, seed: int) -> torch.Tensor:
    """Return random rows between which lies what is not a number."""
    wide = torch.full((rows, columns + 8), float("nan"), dtype=dtype)
    generator = torch.Generator().manual_seed(seed)
    wide[:, :columns] = torch.randn(rows, columns, generator=generator) * 3
    return wide[:, :columns]


def _name(dtype: torch.dtype) -> str:
    return {FP8: "fp8"}.get(dtype, str(dtype).removeprefix("torch."))
