"""The layer that talks to CUDA, as far as that can be tried without it: its calls, one by one."""

import re
from pathlib import Path
from weakref import WeakKeyDictionary

import pytest
import torch

from localpaged.engine.device import CaptureFailed, CudaDevice

ROOT = Path(__file__).parents[2]
CALLS = re.compile(r"torch\.cuda\.([A-Za-z_]+(?:\.[A-Za-z_]+)*)")


CALLED = (
    "set_device",
    "Stream",
    "set_stream",
    "current_stream",
    "default_stream",
    "graph_pool_handle",
    "CUDAGraph",
    "graph",
    "Event",
    "mem_get_info",
)


class FakeGraph:
    """A graph that is known by itself, as torch's are."""


class FakeCuda:
    """Stands for torch.cuda; notes calls in their order. Pools are refused when nobody has them."""

    def __init__(self, monkeypatch, *, ends_badly=False):
        self.calls = []
        self.num_pools = 0
        self.pools = WeakKeyDictionary()
        self.used = set()
        self.streams = {"default": "default", "current": "default"}
        self.ends_badly = ends_badly
        for name in CALLED:
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))

    def set_device(self, device):
        self.calls.append(("set_device", device.index))

    def current_stream(self):
        return self.streams["current"]

    def default_stream(self):
        return self.streams["default"]

    def Stream(self, device):
        fake = self

        class Stream:
            def wait_stream(self, other):
                fake.calls.append(("wait", other))

        return Stream()

    def set_stream(self, stream):
        self.streams["current"] = stream

    def graph_pool_handle(self):
        self.num_pools += 1
        return (0, self.num_pools)

    def CUDAGraph(self):
        return FakeGraph()

    def graph(self, graph, *, pool, stream, capture_error_mode):
        assert stream == self.streams["current"]
        is_new = pool == (0, self.num_pools) and pool not in self.used
        assert pool in self.pools.values() or is_new, "use_count > 0 INTERNAL ASSERT FAILED"
        self.pools[graph] = pool
        self.used.add(pool)
        self.calls.append(("graph", capture_error_mode))
        fake = self

        class Recording:
            def __enter__(self):
                pass

            def __exit__(self, *error):
                if fake.ends_badly:
                    raise RuntimeError("operation failed due to a previous error\nmore")

        return Recording()

    def Event(self, *, blocking):
        assert blocking
        fake = self

        class Event:
            def record(self):
                fake.calls.append(("record",))

            def synchronize(self):
                fake.calls.append(("synchronize",))

        return Event()

    def mem_get_info(self, device):
        return 5, 9


def test_all_is_put_on_one_stream_that_waits_for_what_is_there(monkeypatch):
    cuda = FakeCuda(monkeypatch)
    CudaDevice(1)
    mine = cuda.streams["current"]
    assert mine != "default"
    assert cuda.calls == [("set_device", 1), ("wait", "default")]
    CudaDevice(1)
    assert cuda.streams["current"] is mine, "models of a thread share it"


def test_a_download_is_waited_for_by_its_event(monkeypatch):
    cuda = FakeCuda(monkeypatch)
    device = CudaDevice()
    source, target = torch.ones(3), torch.zeros(3)
    ticket = device.download(source, target)
    assert cuda.calls[-1] == ("record",)
    assert torch.equal(ticket.wait(), source)
    assert cuda.calls[-1] == ("synchronize",)
    assert device.free_bytes() == 5


def test_work_is_done_before_it_is_recorded_and_again_while_it_is(monkeypatch):
    cuda = FakeCuda(monkeypatch)
    device, done = CudaDevice(), []
    graph = device.capture(lambda: done.append(len(cuda.calls)))
    assert isinstance(graph, FakeGraph)
    assert done == [2, 3] and cuda.calls[2] == ("graph", "thread_local")


def test_graphs_share_one_pool_and_behind_the_last_of_them_is_a_new_one(monkeypatch):
    cuda = FakeCuda(monkeypatch)
    device = CudaDevice()
    first, second = (device.capture(lambda: None) for _ in range(2))
    assert cuda.pools[first] == cuda.pools[second] == (0, 1)
    del first
    third = device.capture(lambda: None)
    assert cuda.pools[third] == (0, 1)
    del second, third
    assert cuda.pools[device.capture(lambda: None)] == (0, 2)


def test_what_breaks_a_recording_first_is_told_with_its_place(monkeypatch):
    FakeCuda(monkeypatch, ends_badly=True)
    device, left = CudaDevice(), [1]

    def work():
        if not left:
            raise ValueError("a copy that is not pinned\nand more")
        left.pop()

    with pytest.raises(
        CaptureFailed, match=r"^a copy that is not pinned \(test_cuda_device.py:\d+\)$"
    ):
        device.capture(work)


def test_what_breaks_the_work_itself_is_no_fault_of_recording(monkeypatch):
    FakeCuda(monkeypatch)

    def work():
        raise ValueError("out of memory")

    with pytest.raises(ValueError, match="out of memory"):
        CudaDevice().capture(work)


@pytest.mark.parametrize("folder", ["localpaged", "kernels", "benchmarks"])
def test_every_name_of_torch_cuda_that_is_used_is_there(folder):
    used = {
        name
        for path in (ROOT / folder).rglob("*.py")
        for name in CALLS.findall(path.read_text(encoding="utf-8"))
    }
    assert used
    for name in used:
        found = torch.cuda
        for part in name.split("."):
            assert hasattr(found, part), name
            found = getattr(found, part)
