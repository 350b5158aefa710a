"""Triton's driver without a card: kernels are compiled for one and started for nobody.

Run as a script it starts kernels twice, as Triton does and as `localpaged_kernels.starting` does,
and prints as JSON where the two differ.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from localpaged_kernels.card import Card
from localpaged_kernels.few_rows import triton_impl as few_rows
from localpaged_kernels.gated import triton_impl as gates
from localpaged_kernels.kv_cache import triton_impl as blocks
from localpaged_kernels.launch import Launch
from localpaged_kernels.norm import triton_impl as norms
from localpaged_kernels.paged_attention.device_rows import DeviceRows
from localpaged_kernels.paged_attention.triton_launches import Terms, plan
from localpaged_kernels.starting import Starter
from testkit.specialisations import key_of

METADATA_PLACE = 6
"""What profilers are told of a start, made anew for each."""


class Driverless:
    """Stands for Triton's driver; `started` are the arguments of each start."""

    def __init__(self) -> None:
        self.started: list[tuple[Any, ...]] = []
        self.utils = self

    def load_binary(self, *_: Any) -> tuple[int, int, int, int, int]:
        return 1, 1, 100, 0, 1_024

    def get_device_properties(self, _: int) -> dict[str, int]:
        return {"max_shared_mem": 232_448, "multiprocessor_count": 132, "warpSize": 32}

    def unload_module(self, *_: Any) -> None:
        pass

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, _: int) -> int:
        return 7

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def launcher_cls(self, *_: Any) -> Callable[..., None]:
        return lambda *told: self.started.append(told)


def launches() -> Iterator[Launch]:
    """Yield launches, some of one build and some not, of numbers and addresses of all kinds."""
    for dtype in (torch.bfloat16, torch.float16):
        for rows, hidden, shift in ((1, 64, 0), (3, 64, 0), (3, 64, 1), (1, 1, 0), (3, 72, 8)):
            wide = torch.zeros(rows * hidden + shift, dtype=dtype)[shift:].view(rows, hidden)
            for residual, weight in ((None, None), (wide, wide[0]), (wide, None)):
                yield norms.plan(
                    torch.empty_like(wide), torch.empty_like(wide), wide, residual, weight, eps=1.0
                )
            if rows == 1 and hidden > 1:
                for norm in (None, wide[0]):
                    launch = row_of(wide, norm=norm)
                    yield from (launch, launch.chained())
            if hidden > 1:
                half = wide[:, : hidden // 2].contiguous()
                yield gates.plan(half, wide, "silu" if hidden == 64 else "gelu")
    for words, is_far in ((16, False), (17, False), (16, True), (1, False)):
        pool = torch.zeros(2, 4, words, dtype=torch.int32)
        ids = torch.zeros(1, dtype=torch.int64)
        launch = blocks.plan(pool, pool, source_ids=ids)
        far = {"source_block_stride": 2**31 if words == 16 else 2**31 + 1}
        yield replace(launch, args={**launch.args, **far}) if is_far else launch
        yield blocks.plan(pool, pool, target_ids=ids.to(torch.int32))


def row_of(x: torch.Tensor, *, norm: torch.Tensor | None) -> Launch:
    """Return the launch that projects a row."""
    weight = torch.zeros(16, x.shape[1], dtype=x.dtype)
    return few_rows.plan(torch.zeros(1, 16, dtype=x.dtype), x, x, weight, norm=norm)


def attention() -> Iterator[Launch]:
    """Yield launches of attention of all kinds: rows, widths, parts, windows, caches."""
    card = Card((9, 0), 132)
    for kv_dtype, rows, width, splits, window in itertools.product(
        (torch.bfloat16, torch.int8), (1, 3, 16), (1, 16, 17), (1, 2, 16), (None, 1, 16, 30)
    ):
        queries = torch.zeros(rows, 6, 64, dtype=torch.bfloat16)
        kv = torch.zeros(2, 16, 2, 3, 64, dtype=kv_dtype)
        scales = torch.zeros(kv.shape[:-1]) if kv_dtype == torch.int8 else None
        tables = torch.zeros(rows, width, dtype=torch.int32)
        lens = torch.ones(rows, dtype=torch.int32)
        starts = torch.arange(rows + 1, dtype=torch.int32)
        terms = Terms(1.0, window=window, kv_scales=scales)
        for row_starts in (None, starts):
            sums = lens.sum(0, keepdim=True, dtype=torch.int32) if row_starts is None else None
            device_rows = DeviceRows(tables, lens, row_starts, 0, rows, sums)
            out = torch.empty_like(queries)
            yield from plan(out, queries, kv, device_rows, terms, card=card, num_splits=splits)


def differences() -> dict[str, list[str]]:
    """Return launches that are started otherwise than Triton would, and keys that are not its."""
    fake = Driverless()
    driver.set_active(fake)
    starters: dict[int, Starter] = {}
    started: list[str] = []
    keys: dict[Any, Any] = {}
    seen: dict[Any, Any] = {}
    confused: list[str] = []
    count = 0
    small = list(launches())
    for place, launch in enumerate([*small, *attention()]):
        name = f"{place}: {launch.kernel.__name__}"
        starter = starters.setdefault(id(launch.kernel), Starter(launch.kernel))
        mine, tritons = (launch.kernel.__name__, starter.key(launch)), key_of(launch)
        if keys.setdefault(mine, tritons) != tritons or seen.setdefault(tritons, mine) != mine:
            confused.append(name)
        count += 1
        if place >= len(small):
            continue  # takes long to be compiled
        fake.started.clear()
        launch.kernel[launch.grid](**launch.args, **launch.constants, **launch.options)
        for _ in range(2):
            starter.start(launch)
        first, *others = map(_plain, fake.started)
        if len(others) != 2 or any(other != first for other in others):
            started.append(name)
    return {
        "started otherwise": started,
        "keys": confused,
        "looked at": [str(count), str(len(keys))],
    }


def _plain(told: tuple[Any, ...]) -> list[Any]:
    """Return what is equal in two starts that are alike; a tensor or code is the same or none."""
    plain = (int, float, bool, str, bytes, tuple, type(None))
    return [
        (type(part), part if isinstance(part, plain) else id(part))
        for place, part in enumerate(told)
        if place != METADATA_PLACE
    ]


if __name__ == "__main__":
    json.dump(differences(), sys.stdout)
