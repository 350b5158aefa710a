"""Loads a model's parts onto the processor or a card; on the engine's thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from localpaged.card_parts import make_card_parts
from localpaged.config import Settings
from localpaged.devices import Device, choose_device
from localpaged.engine.events import LoadEvent
from localpaged.fitting.fit import Fit
from localpaged.models.opened_model import OpenedModel

if TYPE_CHECKING:
    import torch

    from localpaged.engine.containment import Runner
    from localpaged.engine.device import DeviceLayer
    from localpaged.engine.kv_storage import KVStorage
    from localpaged.engine.params import EngineConfig

OnLoad = Callable[[LoadEvent], None]

SIGNS_OF_A_CARD = (Path("/proc/driver/nvidia/version"), Path("/dev/dxg"))
"""An NVIDIA driver, and that of Windows below a Linux of its own."""

ROUNDING = "Rounding weights to 8 bits"

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
    if fit.formats.has_eight_bit:
        state = _rounded_weights(opened, fit, on_load, disk_bytes=weights_disk_bytes)
    else:
        state = _weights(opened, fit, layer, on_load)
    weight_bytes = sum(tensor.nbytes for tensor in {id(t): t for t in state.values()}.values())
    if layer is None:
        kv, runner = _on_processor(opened, fit, state, on_load)
        return LoadedParts(runner, kv, fit.engine, weight_bytes)
    on_card = make_card_parts(opened, fit, state, layer, on_load)
    return LoadedParts(on_card.runner, on_card.kv, on_card.engine, weight_bytes)


def _weights(
    opened: OpenedModel, fit: Fit, layer: DeviceLayer | None, on_load: OnLoad
) -> dict[str, torch.Tensor]:
    from localpaged.models.weights import load_state

    formats = fit.formats
    return load_state(
        opened,
        dtype=formats.activations,
        projection_dtype=formats.projections,
        with_four_bit=formats.has_four_bit,
        weights=formats.weights,
        device=None if layer is None else layer.torch_device,
        on_progress=lambda stage, done, total: on_load(LoadEvent(stage, done, total, "bytes")),
    )


def _rounded_weights(
    opened: OpenedModel, fit: Fit, on_load: OnLoad, *, disk_bytes: int
) -> dict[str, torch.Tensor]:
    """Return weights in 8 bits, as an earlier start left them or made from the model's files."""
    from localpaged.engine import eight_bit
    from localpaged.engine.rounded_layout import rounded_layout
    from localpaged.models import dequantise, tensor_layout, weights
    from localpaged.models.kept_weights import KeptWeights
    from localpaged.models.unread_state import UnreadState

    made_by = (eight_bit, dequantise, tensor_layout, weights)
    kept = KeptWeights(opened, made_by=made_by, budget_bytes=disk_bytes)
    state = kept.read(
        lambda done, total: on_load(LoadEvent(weights.LOADING, done, total, "bytes")),
        layout=rounded_layout(
            opened.config,
            fit.formats.activations,
            has_rope_factors=tensor_layout.ROPE_FACTORS in opened.places,
        ),
    )
    if state is None:
        reader = weights.StateReader(
            opened,
            dtype=fit.formats.activations,
            on_progress=lambda _, done, total: on_load(LoadEvent(ROUNDING, done, total, "bytes")),
        )
        with closing(reader):
            state = eight_bit.to_eight_bit(opened.config, UnreadState(reader))
            reader.check()
        kept.write(state)
    return state


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
    if not fit.formats.has_eight_bit:
        from localpaged.engine.native import NativeDecoder

        decoder = NativeDecoder(config, state)
        return ModelRunner(decoder, kv, padding_ids=padding_ids, torch_threads=threads)
    on_load(LoadEvent("Making a step for this processor"))
    from localpaged.engine.team_decoder import TeamDecoder, select_compiled

    team = TeamDecoder(config, state, threads=threads)
    # What the sampler has to do is too little for a second thread, which would take a core from
    # the team when it waits.
    return ModelRunner(team, kv, padding_ids=padding_ids, torch_threads=1, select=select_compiled)
