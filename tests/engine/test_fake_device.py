"""The fake device is as blind as CUDA's graphs and as strict: tests that rely on it can fail."""

import pytest
import torch

from localpaged.engine.device import CaptureFailed
from localpaged_kernels.launch import Launch
from testkit.fake_device import FakeDevice


@pytest.fixture
def device():
    made = FakeDevice()
    with torch.inference_mode(), made.step():
        yield made


def test_a_replay_reads_memory_and_no_number_of_python(device):
    x, y, number = torch.ones(3), torch.zeros(3), [1]

    def work():
        doubled = x * 2
        y.copy_(doubled.view(3, 1)[:, 0] + number[0])

    graph = device.capture(work)
    assert y.tolist() == [3, 3, 3]
    number[0] = 50
    x.fill_(4)
    graph.replay()
    assert y.tolist() == [9, 9, 9]


def test_recording_leaves_no_trace(device):
    counter = torch.zeros(1)
    graph = device.capture(lambda: counter.add_(1))
    assert counter.tolist() == [1]  # the work was done once, and recorded
    graph.replay()
    assert counter.tolist() == [2]


def test_launches_are_replayed_with_the_arguments_that_they_had(device):
    given = []

    def kernel(**arguments):
        given.append(arguments["scale"])
        arguments["x"].mul_(arguments["scale"])

    class Kernel:
        def __getitem__(self, grid):
            return kernel

    x, scale = torch.ones(1), [3]
    work = lambda: Launch(Kernel(), (1,), {"x": x, "scale": scale[0]}, {}).run()  # noqa: E731
    graph = device.capture(work)
    scale[0] = 7
    graph.replay()
    assert given == [3, 3, 3]
    assert x.tolist() == [9]


UNRECORDABLE = {
    "a number read": lambda x: x.sum().item(),
    "numbers read": lambda x: x.tolist(),
    "a condition": lambda x: bool((x > 0).any()),
    "a tensor of the host's": lambda x: x.copy_(torch.tensor([1.0, 2.0])),
    "rows chosen by value": lambda x: x[x > 0].sum(),
}


@pytest.mark.parametrize("work", UNRECORDABLE.values(), ids=UNRECORDABLE)
def test_what_cuda_does_not_record_is_refused(device, work):
    x = torch.ones(2)
    with pytest.raises(CaptureFailed):
        device.capture(lambda: work(x))


def test_waits_and_copies_that_nobody_asked_the_layer_for_are_noted(device):
    x = torch.ones(2)
    device.hidden.clear()
    x.sum().item()
    torch.tensor([1])
    assert device.hidden == ["item", "tensor"]


def test_what_comes_is_rubbish_until_it_was_waited_for(device):
    up, down = device.host_buffer(8), device.host_buffer(8)
    up.zero_()
    there = torch.ones(8, dtype=torch.uint8)
    device.upload(up, there)
    ticket = device.download(there, down)
    assert down.tolist() != [0] * 8
    assert ticket.wait().tolist() == [0] * 8
    assert (device.num_uploads, device.num_downloads, device.num_waits) == (1, 1, 1)


def test_what_goes_must_not_change_on_its_way(device):
    up, down = device.host_buffer(8), device.host_buffer(8)
    there = torch.ones(8, dtype=torch.uint8)
    device.upload(up, there)
    ticket = device.download(there, down)
    up.zero_()
    with pytest.raises(AssertionError, match="wrote over"):
        ticket.wait()


def test_memory_that_is_not_pinned_is_refused(device):
    with pytest.raises(AssertionError, match="pinned"):
        device.upload(torch.ones(8, dtype=torch.uint8), torch.ones(8, dtype=torch.uint8))
