"""Comparisons of paged attention and cascade attention with the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from gpu_check_parts.attention_inputs import Inputs, Shape, far_away, poisoned
from gpu_check_parts.comparing import share_of_tolerance
from localpaged_kernels.card import Card
from localpaged_kernels.paged_attention import reference, triton_impl
from localpaged_kernels.paged_attention.device_rows import rows_of
from localpaged_kernels.paged_attention.triton_launches import Terms, plan

BF16, FP16, FP32 = torch.bfloat16, torch.float16, torch.float32
INT8, FP8 = torch.int8, torch.float8_e4m3fn
TOLERANCE = {FP32: 1e-4, BF16: 2e-2, FP16: 4e-3}

MIXED = ((1, 1), (1, 16), (1, 33), (1, 700), (37, 37), (5, 410))
LONG = ((1, 900), (1, 3), (1, 350), (5, 600))
TINY_MIXED = ((1, 1), (1, 20), (3, 19))

MANY = Card((8, 0), 1_000)
"""Would be busy with any number of programs: sequences are cut into as many parts as can be."""

FEW = Card((8, 0), 1)
"""Is busy with one: nothing is cut."""

BEYOND = 2**31 + 2**20
BEYOND_NAME = "beyond 2^31 elements"

Compare = Callable[[torch.device], float]
"""Returns the greatest error as a share of what is tolerated."""


@dataclass(frozen=True)
class Way:
    """How attention is started: cut for which card, and whether the last part merges."""

    card: Card | None = None
    is_last_merging: bool = False


def cases(*, is_tiny: bool) -> dict[str, dict[str, Compare]]:
    """Return comparisons by operator and name; a rehearsal's are few and small."""
    if is_tiny:
        return {"paged attention": _tiny(), "cascade attention": _tiny_cascade()}
    return {
        "paged attention": {**_real(), **_sizes(), **_terms(), **_far()},
        "cascade attention": _cascades(),
    }


def _real() -> dict[str, Compare]:
    """Shapes of Qwen3 8B and 4B (32 heads) in all dtypes, and of 0.6B (16) in those it runs in."""
    made: dict[str, Compare] = {}
    for heads, dtypes in ((32, (BF16, FP16, FP32)), (16, (BF16,))):
        for dtype in dtypes:
            for kv_dtype in (None, INT8, FP8):
                shape = Shape(heads=heads, dtype=dtype, kv_dtype=kv_dtype)
                made[f"{heads}/8 of 128, {_name(dtype)} on {_name(kv_dtype or dtype)}"] = partial(
                    _attend, MIXED, shape
                )
    return made


def _sizes() -> dict[str, Compare]:
    """Head sizes, groupings of heads, block sizes."""
    made: dict[str, Compare] = {}
    for dim in (64, 80, 96, 112, 256):
        for dtype in (BF16, FP16):
            shape = Shape(heads=8, kv_heads=4, dim=dim, dtype=dtype)
            made[f"8/4 of {dim}, {_name(dtype)}"] = partial(_attend, MIXED, shape)
    made["8/4 of 256, float32"] = partial(
        _attend, MIXED, Shape(heads=8, kv_heads=4, dim=256, dtype=FP32)
    )
    for heads, kv_heads, dim in ((9, 3, 64), (64, 2, 128), (28, 4, 112), (32, 32, 80)):
        shape = Shape(heads=heads, kv_heads=kv_heads, dim=dim)
        made[f"{heads}/{kv_heads} of {dim}, bfloat16"] = partial(_attend, LONG, shape)
    for block_size in (8, 64):
        made[f"blocks of {block_size}"] = partial(_attend, LONG, Shape(block_size=block_size))
    return made


def _terms() -> dict[str, Compare]:
    """Windows, caps, sinks, parts, and who puts them together."""
    made: dict[str, Compare] = {}
    everything: dict[str, Any] = {"window": 129, "softcap": 0.5, "has_sinks": True}
    asked: dict[str, dict[str, Any]] = {
        "window of 1": {"window": 1},
        "window of 200": {"window": 200},
        "cap": {"softcap": 3.0},
        "sinks": {"has_sinks": True},
        "window, cap, sinks": everything,
    }
    for name, numbers in asked.items():
        for cut, card in (("whole", FEW), ("in parts", MANY)):
            made[f"{name}, {cut}"] = partial(_attend, LONG, Shape(), way=Way(card), **numbers)
    for kv_dtype in (None, INT8, FP8):
        for is_last_merging in (False, True):
            way = Way(MANY, is_last_merging)
            ending = "last merges" if is_last_merging else "second launch"
            made[f"in parts on {_name(kv_dtype or BF16)}, {ending}"] = partial(
                _attend, LONG, Shape(heads=32, kv_dtype=kv_dtype), way=way
            )
    return made


def _far() -> dict[str, Compare]:
    """Addresses beyond 2^31 elements."""
    return {
        f"{BEYOND_NAME}, {_name(kv_dtype or BF16)}": partial(_attend_far, kv_dtype)
        for kv_dtype in (None, INT8, FP8)
    }


def _cascades() -> dict[str, Compare]:
    made: dict[str, Compare] = {}
    for kv_dtype in (None, INT8, FP8):
        for is_last_merging in (False, True):
            ending = "last merges" if is_last_merging else "second launch"
            shape = Shape(heads=32, kv_dtype=kv_dtype)
            made[f"32/8 of 128 on {_name(kv_dtype or BF16)}, {ending}"] = partial(
                _cascade, shape, is_last_merging=is_last_merging
            )
    for shape in (Shape(heads=9, kv_heads=3, dim=64), Shape(dtype=FP16), Shape(dtype=FP32)):
        name = f"{shape.heads}/{shape.kv_heads} of {shape.dim}, {_name(shape.dtype)}"
        made[name] = partial(_cascade, shape)
    made["cap and sinks"] = partial(_cascade, Shape(), softcap=4.0, has_sinks=True)
    return made


def _tiny() -> dict[str, Compare]:
    shape = Shape(heads=4, kv_heads=2, dim=32)
    return {
        "bfloat16": partial(_attend, TINY_MIXED, shape),
        "on int8, in parts": partial(
            _attend, ((1, 140),), Shape(4, 1, 32, kv_dtype=INT8), way=Way(MANY), window=100
        ),
    }


def _tiny_cascade() -> dict[str, Compare]:
    return {"bfloat16": partial(_cascade, Shape(4, 1, 32), shared_blocks=17, members=2)}


def _attend(
    rows: Sequence[tuple[int, int]],
    shape: Shape,
    device: torch.device,
    *,
    way: Way = Way(),
    **numbers: Any,
) -> float:
    """Compare `plan`, run for a card, with the reference."""
    inputs = poisoned(rows, shape)
    numbers = _numbers(inputs, numbers)
    return _compare(inputs, _on(inputs, device), way, device, numbers)


def _attend_far(kv_dtype: torch.dtype | None, device: torch.device) -> float:
    inputs = poisoned(((1, 45), (1, 300), (3, 20)), Shape(kv_dtype=kv_dtype))
    far = far_away(inputs, device, BEYOND)
    return _compare(inputs, far, Way(), device, _numbers(inputs, {}))


def _cascade(
    shape: Shape,
    device: torch.device,
    *,
    shared_blocks: int = 20,
    members: int = 4,
    is_last_merging: bool = False,
    **numbers: Any,
) -> float:
    shared = shared_blocks * shape.block_size
    rows = [(1, shared + 5 * i + 1) for i in range(members)] + [(1, 90), (3, 20)]
    inputs = poisoned(rows, shape, shared_blocks=shared_blocks, members=members)
    numbers = _numbers(inputs, numbers)
    card = _on(inputs, device)
    got = triton_impl.paged_attention(
        card.queries,
        card.kv,
        card.batch,
        kv_scales=card.scales,
        is_last_merging=is_last_merging,
        **_moved(numbers, device),
    )
    assert ("cascade slots", card.queries.shape, card.queries.dtype) in card.batch.shared
    return _error(got, inputs, numbers)


def _compare(
    inputs: Inputs, card: Inputs, way: Way, device: torch.device, numbers: dict[str, Any]
) -> float:
    out = torch.full_like(card.queries, float("nan"))
    terms = Terms(kv_scales=card.scales, **_moved(numbers, device))
    for rows in rows_of(card.batch, device):
        count = (rows.num_queries + rows.num_rows) * card.kv.shape[3]
        arrivals = torch.zeros(count, dtype=torch.int32, device=device)
        for launch in plan(
            out,
            card.queries,
            card.kv,
            rows,
            terms,
            card=_card(way, device),
            arrivals=arrivals if way.is_last_merging else None,
        ):
            launch.run()
        assert not arrivals.any(), "the counters of arrivals are not zero again"
    return _error(out, inputs, numbers)


def _card(way: Way, device: torch.device) -> Card | None:
    """Return the card that parts are cut for, with the abilities of the one that is there."""
    if way.card is None or device.type == "cpu":
        return way.card
    return Card(torch.cuda.get_device_capability(device), way.card.num_processors)


def _error(got: torch.Tensor, inputs: Inputs, numbers: dict[str, Any]) -> float:
    want = reference.paged_attention(
        inputs.queries, inputs.kv, inputs.batch, kv_scales=inputs.scales, **numbers
    )
    tolerance = TOLERANCE[got.dtype]
    return share_of_tolerance(got, want, absolute=tolerance, relative=tolerance)


def _numbers(inputs: Inputs, numbers: dict[str, Any]) -> dict[str, Any]:
    """Return the reference's arguments of a case."""
    made: dict[str, Any] = {"scale": inputs.queries.shape[2] ** -0.5, **numbers}
    if made.pop("has_sinks", False):
        made["sinks"] = torch.linspace(-2, 2, inputs.queries.shape[1])
    return made


def _on(inputs: Inputs, device: torch.device) -> Inputs:
    return Inputs(
        inputs.queries.to(device),
        inputs.kv.to(device),
        None if inputs.scales is None else inputs.scales.to(device),
        inputs.batch,
    )


def _moved(numbers: dict[str, Any], device: torch.device) -> dict[str, Any]:
    return {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in numbers.items()
    }


def _name(dtype: torch.dtype) -> str:
    return {FP8: "fp8"}.get(dtype, str(dtype).removeprefix("torch."))
