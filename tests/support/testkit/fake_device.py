"""A device layer on the CPU that counts copies and waits, and whose graphs are as blind as CUDA's.

Recording notes which operators ran on which memory, and leaves no trace there. A replay runs the
same operators on the same memory: whatever followed from a number of Python at the time of the
recording is what it was then. What CUDA would refuse to record is refused. What comes from the
device is rubbish until somebody has waited for it, and what goes there must not change before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from localpaged.engine.device import CaptureFailed
from localpaged_kernels.launch import Launch

RUBBISH = 0xA5
WAITS = {
    "tolist", "item", "numpy", "cpu", "__bool__", "__int__", "__float__", "__index__", "nonzero",
    "argwhere", "masked_select", "equal", "allclose", "unique", "__contains__",
}  # fmt: skip
COPIES = {"tensor", "as_tensor", "asarray", "from_numpy", "frombuffer", "new_tensor"}
ops = torch.ops.aten
UNRECORDABLE = {
    ops._local_scalar_dense.default,
    ops.nonzero.default,
    ops.masked_select.default,
    ops.equal.default,
    ops.lift_fresh.default,
    ops.lift_fresh_copy.default,
}

_launch = Launch.run


class FakeDevice:
    """Implements DeviceLayer. `refuses` tells whether the next recording fails."""

    compiles = False
    """Whether loading runs steps for nobody, which takes its time where kernels are interpreted."""

    def __init__(self, *, refuses: Callable[[], bool] = lambda: False) -> None:
        self.torch_device = torch.device("cpu")
        self.num_uploads = 0
        self.num_downloads = 0
        self.num_waits = 0
        self.num_captures = 0
        self.num_replays = 0
        self.hidden: list[str] = []
        """Calls within a step that would wait for a GPU, or copy to it by themselves."""
        self._refuses = refuses
        self._host: set[int] = set()
        self._on_the_way: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._recorder: _Recorder | None = None

    def host_buffer(self, num_bytes: int) -> torch.Tensor:
        buffer = torch.full((num_bytes,), RUBBISH, dtype=torch.uint8)
        self._host.add(_storage(buffer))
        return buffer

    def upload(self, source: torch.Tensor, target: torch.Tensor) -> None:
        assert _storage(source) in self._host, "not pinned: the host would wait"
        assert self._recorder is None, "a graph would copy what lies there now for ever"
        self.num_uploads += 1
        target.copy_(source)
        self._on_the_way[self.num_uploads] = (source, source.clone())

    def download(self, source: torch.Tensor, target: torch.Tensor) -> _Ticket:
        assert _storage(target) in self._host, "not pinned: the host would wait"
        self.num_downloads += 1
        ticket = _Ticket(self, source.clone(), target, self.num_uploads)
        target.fill_(RUBBISH)
        return ticket

    def capture(self, work: Callable[[], None]) -> _Graph:
        work()
        if self._refuses():
            raise CaptureFailed("as told")
        self.num_captures += 1
        with _Recorder() as recorder:
            self._recorder = recorder
            try:
                work()
            finally:
                self._recorder = None
        recorder.undo()
        return _Graph(self, recorder.steps)

    @contextmanager
    def step(self) -> Iterator[None]:
        with patch.object(Launch, "run", lambda launch: self._run(launch)), _Watch(self):
            yield

    def free_bytes(self) -> int:
        return 1 << 34

    def settle(self, num_uploads: int) -> None:
        """The host has waited for something behind so many uploads."""
        self.num_waits += 1
        for number in [n for n in self._on_the_way if n <= num_uploads]:
            source, sent = self._on_the_way.pop(number)
            assert torch.equal(source, sent), "the host wrote over what was still to be copied"

    @property
    def is_recording(self) -> bool:
        return self._recorder is not None

    def is_host(self, tensor: object) -> bool:
        return isinstance(tensor, torch.Tensor) and _storage(tensor) in self._host

    def _run(self, launch: Launch) -> None:
        if self._recorder is not None:
            self._recorder.note_launch(launch)
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            _launch(launch)


class _Ticket:
    def __init__(
        self,
        device: FakeDevice,
        content: torch.Tensor,
        target: torch.Tensor,
        num_uploads: int,
    ) -> None:
        self._device, self._content, self._target = device, content, target
        self._num_uploads = num_uploads

    def wait(self) -> torch.Tensor:
        self._device.settle(self._num_uploads)
        self._target.copy_(self._content)
        return self._target


class _Graph:
    def __init__(self, device: FakeDevice, steps: list[Callable[[], None]]) -> None:
        self._device, self._steps = device, steps

    def replay(self) -> None:
        self._device.num_replays += 1
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            for step in self._steps:
                step()


class _Recorder(TorchDispatchMode):  # type: ignore[misc]  # torch has no type for it
    """Notes what runs, and what lay in memory before it was written."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[Callable[[], None]] = []
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._made: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        given = _tensors((args, kwargs))
        is_masked = func is ops.index.Tensor and any(t.dtype == torch.bool for t in given[1:])
        if func in UNRECORDABLE or is_masked:
            raise CaptureFailed(f"{func} is not permitted when the stream is capturing")
        if func._schema.is_mutable:
            self._keep(given)
        made = func(*args, **kwargs)
        known = {_storage(tensor) for tensor in given}
        fresh = [t for t in _tensors(made) if _storage(t) not in known]
        self._made |= {_storage(tensor) for tensor in fresh}

        def again() -> None:
            now = func(*args, **kwargs)
            if fresh:
                anew = [t for t in _tensors(now) if _storage(t) not in known]
                for old, new in zip(fresh, anew, strict=True):
                    old.copy_(new)

        self.steps.append(again)
        return made

    def note_launch(self, launch: Launch) -> None:
        with _disable_current_modes():
            self._keep(_tensors(dict(launch.args)))
        self.steps.append(lambda: _launch(launch))

    def undo(self) -> None:
        """Leave memory as it was."""
        for whole, content in self._before.values():
            whole.copy_(content)

    def _keep(self, tensors: list[torch.Tensor]) -> None:
        for tensor in tensors:
            key = _storage(tensor)
            if key not in self._before and key not in self._made:
                storage = tensor.untyped_storage()
                whole = torch.empty(0, dtype=torch.uint8).set_(storage)
                self._before[key] = (whole, whole.clone())


class _Watch(TorchFunctionMode):  # type: ignore[misc]  # torch has no type for it
    """Notes calls that would wait for a GPU or copy to it."""

    def __init__(self, device: FakeDevice) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name in COPIES or (name in WAITS and not (args and self._device.is_host(args[0]))):
            self._device.hidden.append(name)
            if self._device.is_recording:
                raise CaptureFailed(f"{name} is not permitted when the stream is capturing")
        return func(*args, **(kwargs or {}))


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def _storage(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())
