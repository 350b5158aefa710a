"""The smaller kernels in the sizes of Qwen3 8B, and torch's own operators beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

import torch
import torch.nn.functional as F

from gpu_check_parts.packed import counters, random_matrix
from localpaged_kernels.few_rows.triton_impl import project
from localpaged_kernels.gated.triton_impl import gated
from localpaged_kernels.kv_cache.triton_impl import copy_blocks, gather_blocks
from localpaged_kernels.norm.triton_impl import add_rms_norm
from localpaged_kernels.quantised_linear import triton_impl as quantised
from localpaged_kernels.rope_write.triton_impl import rope_write
from localpaged_kernels.sampling.triton_impl import sample

BF16 = torch.bfloat16
HIDDEN, INTERMEDIATE, VOCAB = 4_096, 12_288, 151_936
HEADS, KV_HEADS, DIM, LAYERS = 32, 8, 128, 36


@dataclass(frozen=True)
class Prepared:
    """What is timed, the bytes it moves at least, and torch's way of doing the same."""

    run: Callable[[], object]
    moved_bytes: int
    peers: Mapping[str, Callable[[], object]] = field(default_factory=dict)


@dataclass(frozen=True)
class OperatorWork:
    """A kernel's work; its memory is taken when it is prepared."""

    name: str
    prepare: Callable[[], Prepared]


def operator_works(device: torch.device, *, is_tiny: bool) -> Iterator[OperatorWork]:
    """Yield all of them; tiny ones keep nothing of a model but the order of their dimensions."""
    make = _Makes(device, is_tiny)
    for rows in (2,) if is_tiny else (1, 32, 2_048):
        yield OperatorWork(f"norm and residual, {_many(rows)}", partial(make.norm, rows))
        yield OperatorWork(f"SwiGLU, {_many(rows)}", partial(make.gate, rows))
        yield OperatorWork(f"norm, rotation and write, {_many(rows)}", partial(make.write, rows))
    for rows in (2,) if is_tiny else (1, 32, 256):
        for how, is_filtered in (("temperature alone", False), ("top-k 50, top-p 0.9", True)):
            yield OperatorWork(
                f"draw, {how}, {_many(rows)}", partial(make.draw, rows, is_filtered=is_filtered)
            )
    yield OperatorWork("copy of 16 blocks", make.copy)
    yield OperatorWork("16 blocks into one piece", make.gather)
    for rows in (2,) if is_tiny else (1, 2):
        for what in ("gate and up", "down"):
            yield OperatorWork(
                f"linear of few rows, {what}, {_many(rows)}", partial(make.few, what, rows)
            )
    for rows in (2,) if is_tiny else (1, 32):
        yield OperatorWork(
            f"torch's linear, gate and up, {_many(rows)}", partial(make.linear, rows)
        )
    for bits, rows in ((4, 2),) if is_tiny else ((4, 1), (8, 1), (4, 64), (4, 256), (4, 2_048)):
        yield OperatorWork(
            f"linear by {bits} bits, gate and up, {_many(rows)}", partial(make.packed, bits, rows)
        )


def _many(rows: int) -> str:
    return f"{rows:,} row{'s' * (rows > 1)}"


@dataclass(frozen=True)
class _Makes:
    device: torch.device
    is_tiny: bool

    def random(self, *shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
        return torch.randn(shape, dtype=dtype, device=self.device)

    def size(self, real: int, tiny: int) -> int:
        return tiny if self.is_tiny else real

    def norm(self, rows: int) -> Prepared:
        hidden = self.size(HIDDEN, 64)
        x, residual, weight = (
            self.random(rows, hidden),
            self.random(rows, hidden),
            self.random(hidden),
        )
        return Prepared(
            lambda: add_rms_norm(x, residual, weight, eps=1e-6),
            4 * x.nbytes + weight.nbytes,
            {"torch, two operators": lambda: F.rms_norm(x + residual, (hidden,), weight, 1e-6)},
        )

    def gate(self, rows: int) -> Prepared:
        gate_up = self.random(rows, 2 * self.size(INTERMEDIATE, 48))
        first, second = gate_up.chunk(2, dim=-1)
        return Prepared(
            lambda: gated(gate_up, "silu"),
            gate_up.nbytes * 3 // 2,
            {"torch, two operators": lambda: F.silu(first) * second},
        )

    def write(self, rows: int) -> Prepared:
        heads, kv_heads = self.size(HEADS, 4), self.size(KV_HEADS, 2)
        dim = self.size(DIM, 32)
        qkv = self.random(rows, heads + 2 * kv_heads, dim)
        kv = torch.zeros(rows // 16 + 2, 16, 2, kv_heads, dim, dtype=BF16, device=self.device)
        places = torch.arange(rows, device=self.device)
        cos, sin = (self.random(4_096, dim, dtype=torch.float32) for _ in range(2))
        weight = self.random(dim)
        return Prepared(
            lambda: rope_write(
                qkv,
                kv,
                places,
                positions=places,
                cos=cos,
                sin=sin,
                q_norm=weight,
                k_norm=weight,
                eps=1e-6,
            ),
            2 * qkv.nbytes + 2 * rows * dim * 4,
        )

    def draw(self, rows: int, *, is_filtered: bool) -> Prepared:
        logits = self.random(rows, self.size(VOCAB, 97), dtype=torch.float32) * 4
        parameters = {
            "temperatures": torch.full((rows,), 1.0, device=self.device),
            "top_k": torch.full((rows,), 50 * is_filtered, dtype=torch.int32, device=self.device),
            "top_p": torch.full((rows,), 0.9 if is_filtered else 1.0, device=self.device),
            "min_p": torch.zeros(rows, device=self.device),
            "numbers": torch.full((rows,), 0.4, device=self.device),
        }
        return Prepared(
            lambda: sample(logits, **parameters),
            logits.nbytes,
            {"torch's sort": lambda: logits.sort(descending=True)} if is_filtered else {},
        )

    def copy(self) -> Prepared:
        pool, ids = self._pool()
        targets = ids + 16
        return Prepared(
            lambda: copy_blocks(pool, ids, targets, is_apart=True),
            2 * pool[:, :16].nbytes,
            {
                "torch, two operators": lambda: pool.index_copy_(
                    1, targets, pool.index_select(1, ids)
                )
            },
        )

    def gather(self) -> Prepared:
        pool, ids = self._pool()
        return Prepared(
            lambda: gather_blocks(pool, ids),
            2 * pool[:, :16].nbytes,
            {"torch": lambda: pool.index_select(1, ids)},
        )

    def linear(self, rows: int) -> Prepared:
        hidden, width = self.size(HIDDEN, 64), 2 * self.size(INTERMEDIATE, 48)
        x, weight = self.random(rows, hidden), self.random(width, hidden)
        return Prepared(
            lambda: F.linear(x, weight), weight.nbytes + x.nbytes + rows * width * weight.itemsize
        )

    def few(self, what: str, rows: int) -> Prepared:
        hidden, width = self.size(HIDDEN, 64), self.size(INTERMEDIATE, 48)
        is_gated = what == "gate and up"
        inputs, outputs = (hidden, 2 * width) if is_gated else (width, hidden)
        x, weight, norm = (
            self.random(rows, inputs),
            self.random(outputs, inputs),
            self.random(inputs),
        )

        def plain() -> torch.Tensor:
            if not is_gated:
                return F.linear(x, weight)
            normed = F.rms_norm(x + x, (inputs,), norm, 1e-6)
            first, second = F.linear(normed, weight).chunk(2, dim=-1)
            return F.silu(first) * second

        def ours() -> object:
            if not is_gated:
                return project(x, weight)
            return project(x, weight, residual=x, norm=norm, eps=1e-6, gate="silu")

        return Prepared(ours, weight.nbytes + x.nbytes, {"torch's operators": plain})

    def packed(self, bits: int, rows: int) -> Prepared:
        hidden, width = self.size(HIDDEN, 64), 2 * self.size(INTERMEDIATE, 48)
        x, weight = self.random(rows, hidden), self.random(width, hidden)
        matrix = random_matrix(bits, width, hidden, self.device)
        counted = counters(matrix)
        return Prepared(
            lambda: quantised.project(x, matrix, arrivals=counted),
            matrix.numbers.nbytes + matrix.scales.nbytes + x.nbytes + rows * width * x.itemsize,
            {"torch's linear, 16 bits": lambda: F.linear(x, weight)},
        )

    def _pool(self) -> tuple[torch.Tensor, torch.Tensor]:
        layers, dim = self.size(LAYERS, 2), self.size(DIM, 32)
        pool = self.random(layers, 40, 16, 2, self.size(KV_HEADS, 2), dim)
        return pool, torch.arange(16, device=self.device)
