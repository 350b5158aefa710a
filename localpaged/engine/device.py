"""The device layer: all that the GPU's runner asks of CUDA beside torch's operators.

It is a protocol so that tests can count: what is copied, and what waits. Everything is put on one
stream, which is the engine's thread's own from the moment the device is made: KV that is
cleared, swapped or read for a file keeps its order with steps that are under way.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

import torch


class CaptureFailed(Exception):
    """Work was done and could not be recorded; the sentence says why."""


class Ticket(Protocol):
    """A copy to the host that is under way."""

    def wait(self) -> torch.Tensor:
        """Return what was copied, once it is there; the only way in which a step waits."""


class Replayable(Protocol):
    """Work that was recorded."""

    def replay(self) -> None:
        """Do it again, on the same memory, whatever lies there now."""


class DeviceLayer(Protocol):
    """One device and one stream. Engine thread only, and one thread for ever."""

    @property
    def torch_device(self) -> torch.device:
        """Where tensors of the step lie."""

    @property
    def compiles(self) -> bool:
        """Whether kernels are compiled when they are first run; interpreted ones are not."""

    def host_buffer(self, num_bytes: int) -> torch.Tensor:
        """Return uint8 memory of the host that the device can read while the host goes on."""

    def upload(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """Begin to copy a host buffer's part; it must not change until a later download is here."""

    def download(self, source: torch.Tensor, target: torch.Tensor) -> Ticket:
        """Begin to copy into a host buffer's part, behind all that was begun before."""

    def capture(self, work: Callable[[], None]) -> Replayable:
        """Do `work` once, then record it. What it reads and writes must stay where it is.

        Raises CaptureFailed where it cannot be recorded; it was done nevertheless. What breaks the
        work itself is raised as it is.
        """

    def step(self) -> AbstractContextManager[object]:
        """Return a context for what a step puts on the stream; nothing in there may wait."""

    def free_bytes(self) -> int:
        """Return how much of the device's memory nobody has."""


class CudaDevice:
    """An NVIDIA GPU. Makes its stream the current one of the thread that makes it.

    Copies wait for nothing because their host side is pinned. Graphs share one pool of memory:
    they are never replayed side by side. When all of them are gone the next one gets a new pool:
    torch refuses one that nobody has.
    """

    def __init__(self, index: int = 0) -> None:
        self._device = torch.device("cuda", index)
        torch.cuda.set_device(self._device)
        if torch.cuda.current_stream() == torch.cuda.default_stream():
            # The default one cannot be captured; several models of a thread share theirs.
            stream = torch.cuda.Stream(self._device)
            stream.wait_stream(torch.cuda.default_stream())  # for what is there already
            torch.cuda.set_stream(stream)
        self._pool: object = None
        self._graphs: WeakSet[Replayable] = WeakSet()

    @property
    def torch_device(self) -> torch.device:
        """See DeviceLayer."""
        return self._device

    @property
    def compiles(self) -> bool:
        """See DeviceLayer."""
        return True

    def host_buffer(self, num_bytes: int) -> torch.Tensor:
        """See DeviceLayer."""
        return torch.zeros(num_bytes, dtype=torch.uint8, pin_memory=True)

    def upload(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """See DeviceLayer."""
        target.copy_(source, non_blocking=True)

    def download(self, source: torch.Tensor, target: torch.Tensor) -> Ticket:
        """See DeviceLayer."""
        target.copy_(source, non_blocking=True)
        # A spinning wait would take a core for nothing: the next step is on its way already.
        event = torch.cuda.Event(blocking=True)
        event.record()
        return _CudaTicket(target, event)

    def capture(self, work: Callable[[], None]) -> Replayable:
        """See DeviceLayer."""
        work()  # kernels are compiled and workspaces made, neither of which can be recorded
        graph: Replayable = torch.cuda.CUDAGraph()
        if not self._graphs:
            self._pool = torch.cuda.graph_pool_handle()
        try:
            # Other threads may call CUDA meanwhile: only this one must do nothing that waits.
            with torch.cuda.graph(
                graph,
                pool=self._pool,
                stream=torch.cuda.current_stream(),
                capture_error_mode="thread_local",
            ):
                work()
        except Exception as error:
            raise CaptureFailed(told_cause(error)) from error
        self._graphs.add(graph)
        return graph

    def step(self) -> AbstractContextManager[object]:
        """See DeviceLayer."""
        return nullcontext()

    def free_bytes(self) -> int:
        """See DeviceLayer."""
        return int(torch.cuda.mem_get_info(self._device)[0])


def told_cause(error: BaseException) -> str:
    """Return what broke first and where, in one line.

    Ending a recording that broke raises as well, and says nothing of what broke it.
    """
    while error.__context__ is not None:
        error = error.__context__
    said = str(error).splitlines() or [type(error).__name__]
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return said[0] + where


class _CudaTicket:
    def __init__(self, target: torch.Tensor, event: torch.cuda.Event) -> None:
        self._target = target
        self._event = event

    def wait(self) -> torch.Tensor:
        self._event.synchronize()
        return self._target
