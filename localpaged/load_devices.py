"""Loads a model's parts onto the processor or a card; on the engine's thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from localpaged.card_parts import make_card_parts
from localpaged.config import Settings
from localpaged.devices import Device, choose_device
from localpaged.engine.events import LoadEvent
from localpaged.fitting.fit import Fit
from localpaged.memory_plan import grouped_bytes
from localpaged.models.opened_model import OpenedModel
from localpaged.models.weight_forms import PACKED

if TYPE_CHECKING:
    import torch

    from localpaged.engine.containment import Runner
    from localpaged.engine.device import DeviceLayer
    from localpaged.engine.kv_storage import KVStorage
    from localpaged.engine.params import EngineConfig

HowMade = tuple[
    tuple[ModuleType, ...],
    "dict[str, tuple[tuple[int, ...], torch.dtype]]",
    "Callable[[], dict[str, torch.Tensor]]",
]
"""The modules that decide what weights become, what there will be, and what makes it."""

OnLoad = Callable[[LoadEvent], None]

SIGNS_OF_A_CARD = (Path("/proc/driver/nvidia/version"), Path("/dev/dxg"))
"""An NVIDIA driver, and that of Windows below a Linux of its own."""

ROUNDING = "Rounding weights to {} bits"

LOOKING_S = 1.0
"""How old what is told of a card's memory may be: a picture is made after each step."""


class Machine(Protocol):
    """Where the devices are. Engine thread only."""

    @property
    def expects_card(self) -> bool:
        """Whether somebody may wonder why no card is used."""

    def choose(self, settings: Settings) -> Device:
        """Return where to compute; see `choose_device`."""

    def open(self, device: Device) -> DeviceLayer | None:
        """Return the layer that works on a card; None for the processor, which needs none."""


class ThisMachine:
    """The machine that the program runs on; one for all models of a run. Engine thread only.

    Invariant: they are all on one device. A second card would have kernels of one model started
    while the other's is the current one.
    """

    def __init__(self) -> None:
        self._chosen: Device | None = None

    @property
    def expects_card(self) -> bool:
        """See Machine."""
        return any(path.exists() for path in SIGNS_OF_A_CARD)

    def choose(self, settings: Settings) -> Device:
        """See Machine. `settings` are the run's."""
        if self._chosen is None:
            self._chosen = choose_device(settings)
        return self._chosen

    def open(self, device: Device) -> DeviceLayer | None:
        """See Machine."""
        if not device.is_cuda:
            return None
        from localpaged.engine.device import CudaDevice

        return CudaDevice(device.index)


class CardBytes:
    """Tells a card's memory, looking once a second at most. Engine thread only."""

    def __init__(
        self, layer: DeviceLayer, device: Device, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._layer = layer
        self._total_bytes = device.total_bytes
        self._clock = clock
        self._looked_s = -LOOKING_S
        self._free_bytes = 0

    def __call__(self) -> tuple[int, int]:
        """Return all bytes and those that nobody has."""
        if self._clock() - self._looked_s >= LOOKING_S:
            self._looked_s = self._clock()
            self._free_bytes = self._layer.free_bytes()
        return self._total_bytes, self._free_bytes


@dataclass(frozen=True, slots=True)
class LoadedParts:
    """What a core is made of. `weight_bytes` are those that stay.

    `engine` is what the fit says, but for blocks that recorded steps take more than was planned.
    """

    runner: Runner
    kv: KVStorage
    engine: EngineConfig
    weight_bytes: int


def load_parts(
    opened: OpenedModel,
    fit: Fit,
    layer: DeviceLayer | None,
    on_load: OnLoad,
    *,
    weights_disk_bytes: int = 0,
) -> LoadedParts:
    """Read weights and make the pool and what runs steps, on a card where there is a layer.

    Files that keep rounded weights may take `weights_disk_bytes`.
    Raises BadModelFile when a file has changed since the model was opened.
    """
    formats = fit.formats
    if formats.is_compiled:
        state = _rounded_weights(opened, fit, on_load, disk_bytes=weights_disk_bytes)
    else:
        state = _weights(opened, fit, layer, on_load)
    weight_bytes = sum(tensor.nbytes for tensor in {id(t): t for t in state.values()}.values())
    if formats.has_groups:
        weight_bytes = grouped_bytes(opened.config, weight_bytes)
    if layer is None:
        kv, runner = _on_processor(opened, fit, state, on_load)
        return LoadedParts(runner, kv, fit.engine, weight_bytes)
    on_card = make_card_parts(opened, fit, state, layer, on_load)
    return LoadedParts(on_card.runner, on_card.kv, on_card.engine, weight_bytes)


def _weights(
    opened: OpenedModel,
    fit: Fit,
    layer: DeviceLayer | None,
    on_load: OnLoad,
    *,
    stage: str | None = None,
) -> dict[str, torch.Tensor]:
    import torch

    from localpaged.models.weights import load_state

    formats = fit.formats
    return load_state(
        opened,
        # norms are all that is left beside groups
        dtype=torch.float32 if formats.has_groups else formats.activations,
        projection_dtype=formats.projections,
        with_four_bit=formats.has_four_bit,
        weights=formats.weights,
        device=None if layer is None else layer.torch_device,
        on_progress=lambda own, done, total: on_load(LoadEvent(stage or own, done, total, "bytes")),
    )


def _rounded_weights(
    opened: OpenedModel, fit: Fit, on_load: OnLoad, *, disk_bytes: int
) -> dict[str, torch.Tensor]:
    """Return weights in 8 or 4 bits, as an earlier start left them or made from the files."""
    from localpaged.models import weights
    from localpaged.models.kept_weights import KeptWeights

    how = _in_groups if fit.formats.has_groups else _in_eight_bits
    made_by, layout, make = how(opened, fit, on_load)
    kept = KeptWeights(opened, made_by=made_by, budget_bytes=disk_bytes)
    state = kept.read(
        lambda done, total: on_load(LoadEvent(weights.LOADING, done, total, "bytes")),
        layout=layout,
    )
    if state is None:
        state = make()
        kept.write(state)
    return state


def _in_groups(opened: OpenedModel, fit: Fit, on_load: OnLoad) -> HowMade:
    import torch

    from localpaged.models import dequantise, quantise, tensor_layout, weight_forms, weights
    from localpaged.models.grouped_layout import grouped_layout

    asked = fit.formats.weights
    stage = None if asked == PACKED else ROUNDING.format(4)
    return (
        (quantise, weight_forms, dequantise, tensor_layout, weights),
        grouped_layout(opened, torch.float32, asked),
        lambda: _weights(opened, fit, None, on_load, stage=stage),
    )


def _in_eight_bits(opened: OpenedModel, fit: Fit, on_load: OnLoad) -> HowMade:
    from localpaged.engine import eight_bit
    from localpaged.engine.rounded_layout import rounded_layout
    from localpaged.models import dequantise, tensor_layout, weights
    from localpaged.models.unread_state import UnreadState

    dtype = fit.formats.activations
    has_rope_factors = tensor_layout.ROPE_FACTORS in opened.places

    def make() -> dict[str, torch.Tensor]:
        def tell(_: str, done: int, total: int) -> None:
            on_load(LoadEvent(ROUNDING.format(8), done, total, "bytes"))

        with closing(weights.StateReader(opened, dtype=dtype, on_progress=tell)) as reader:
            state = eight_bit.to_eight_bit(opened.config, UnreadState(reader))
            reader.check()
            return state

    layout = rounded_layout(opened.config, dtype, has_rope_factors=has_rope_factors)
    return (eight_bit, dequantise, tensor_layout, weights), layout, make


def _on_processor(
    opened: OpenedModel, fit: Fit, state: dict[str, torch.Tensor], on_load: OnLoad
) -> tuple[KVStorage, Runner]:
    from localpaged.engine.kv_storage import KVStorage

    on_load(LoadEvent("Allocating KV blocks", 0, fit.engine.num_blocks, "blocks"))
    kv = KVStorage(
        opened.config,
        num_blocks=fit.engine.num_blocks,
        block_size=fit.engine.block_size,
        dtype=fit.formats.kv,
        host_blocks=fit.engine.host_blocks,
    )
    return kv, _processor_runner(opened, fit, state, kv, on_load)


def _processor_runner(
    opened: OpenedModel,
    fit: Fit,
    state: dict[str, torch.Tensor],
    kv: KVStorage,
    on_load: OnLoad,
) -> Runner:
    import torch

    from localpaged.engine.runner import ModelRunner

    threads, padding_ids = torch.get_num_threads(), opened.chat.padding_ids
    # tables of angles are made for this context alone
    config = replace(opened.config, context_length=fit.engine.context_length)
    if not fit.formats.is_compiled:
        from localpaged.engine.native import NativeDecoder

        decoder = NativeDecoder(config, state)
        return ModelRunner(decoder, kv, padding_ids=padding_ids, torch_threads=threads)
    on_load(LoadEvent("Making a step for this processor"))
    from localpaged.engine.team_decoder import TeamDecoder, select_compiled

    team = TeamDecoder(config, state, threads=threads)
    # What the sampler has to do is too little for a second thread, which would take a core from
    # the team when it waits.
    return ModelRunner(team, kv, padding_ids=padding_ids, torch_threads=1, select=select_compiled)
