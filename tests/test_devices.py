"""Which device is chosen on machines that are not there, and what is said where none can be."""

from __future__ import annotations

import subprocess
import sys
import warnings
from dataclasses import replace

import pytest

from localpaged.cards import Card, Cards, is_compiled_for, read_cards
from localpaged.config import Settings
from localpaged.devices import Device, choose_device
from localpaged.errors import ConfigError

GIB = 2**30
NEW = Card(0, "RTX 4090", (8, 9), 24 * GIB, 20 * GIB)
LARGE = Card(1, "H200", (9, 0), 139 * GIB, 100 * GIB)
OLD = Card(0, "RTX 2080", (7, 5), 8 * GIB, 0, "has compute capability 7.5, and the kernels need 8")
FULL = Card(0, "RTX 3090", (8, 6), 24 * GIB, 0, "cannot be opened: CUDA error: out of memory")
ONE = Cards("13.0", (NEW,), triton="3.9.0")
TWO = Cards("13.0", (NEW, LARGE), triton="3.9.0")
NONE = Cards(triton="3.9.0")
NO_DRIVER = Cards("13.0", (), "The NVIDIA driver on your system is too old (found 11040).", "3.9.0")


def choose(asked, cards):
    return choose_device(Settings("m", device=asked), cards)


def test_the_card_with_most_free_memory_is_taken_and_why_is_told():
    assert choose("auto", ONE).label == "cuda:0"
    best = choose("auto", TWO)
    assert (best.label, best.card, best.free_bytes) == ("cuda:1", "H200", 100 * GIB)
    assert "2 cards" in best.why
    assert choose("cuda", TWO) == best
    assert choose("auto", replace(TWO, cards=(OLD, LARGE))).label == "cuda:1"
    even = replace(LARGE, free_bytes=NEW.free_bytes)
    assert choose("auto", replace(TWO, cards=(NEW, even))).label == "cuda:0"


def test_a_card_is_taken_by_its_number():
    assert choose("cuda:0", TWO).title == "cuda:0 (RTX 4090)"


UNUSABLE = {
    "no card": (NONE, "without CUDA"),
    "old driver": (NO_DRIVER, "driver on your system is too old"),
    "old card": (Cards("13.0", (OLD,), triton="3.9.0"), "RTX 2080 has compute capability 7.5"),
    "full card": (Cards("13.0", (FULL,), triton="3.9.0"), "out of memory"),
    "no Triton": (replace(ONE, triton=""), "Triton is not installed"),
    "old Triton": (replace(ONE, triton="3.5.1"), "Triton 3.5.1 is older than 3.6"),
}


@pytest.mark.parametrize(("cards", "reason"), UNUSABLE.values(), ids=UNUSABLE)
def test_the_processor_computes_where_no_card_can_and_the_reason_is_told(cards, reason):
    device = choose("auto", cards)
    assert (device.label, device.is_cuda) == ("cpu", False)
    assert reason in device.why


@pytest.mark.parametrize("asked", ["cuda", "cuda:0"])
@pytest.mark.parametrize(("cards", "reason"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_card_that_is_asked_for_is_never_replaced_by_the_processor(asked, cards, reason):
    with pytest.raises(ConfigError) as refused:
        choose(asked, cards)
    assert asked in refused.value.message and reason in refused.value.message
    assert refused.value.message.count("\n") == 0
    assert "--device" in refused.value.hint


def test_a_number_that_no_card_has_is_refused_with_those_that_are_there():
    with pytest.raises(ConfigError, match="torch sees 2 cards, numbered from 0") as refused:
        choose("cuda:2", TWO)
    assert "cuda:0, cuda:1" in refused.value.hint


def test_the_processor_that_is_asked_for_is_taken_whatever_is_there():
    assert choose("cpu", TWO) == Device(why="the settings say so")


@pytest.mark.parametrize("text", ["", "gpu", "cuda:", "cuda:-1", "cuda:1000", "CPU", "cuda:0\n"])
def test_what_is_no_device_is_refused(text):
    with pytest.raises(ConfigError, match="is not a device") as refused:
        Settings("m", device=text)
    assert "cuda:1" in refused.value.hint


@pytest.mark.parametrize(
    ("architectures", "is_right"),
    [(("sm_80",), False), (("sm_120",), True), (("compute_90",), True), (("sm_90a", "x"), False)],
)
def test_a_build_runs_on_cards_it_has_code_for(architectures, is_right):
    assert is_compiled_for((12, 0), architectures) is is_right


class Properties:
    """What torch tells of a card."""

    def __init__(self, name, capability):
        self.name, (self.major, self.minor), self.total_memory = name, capability, 24 * GIB


@pytest.fixture
def machine(monkeypatch):
    """A machine whose torch has CUDA and two cards, and what looking at each gives or raises."""
    import torch

    cards = [Properties("RTX 3090", (8, 6)), Properties("RTX 2080", (7, 5))]
    free = {0: 5 * GIB, 1: 7 * GIB}

    def mem_get_info(index):
        if isinstance(free[index], Exception):
            raise free[index]
        return free[index], 24 * GIB

    def device_memory_used(index):
        raise ModuleNotFoundError("nvidia-ml-py")

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(cards))
    monkeypatch.setattr(torch.cuda, "get_device_properties", cards.__getitem__)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_75", "sm_80"])
    monkeypatch.setattr(torch.cuda, "mem_get_info", mem_get_info)
    monkeypatch.setattr(torch.cuda, "device_memory_used", device_memory_used)
    return cards, free


def test_cards_are_read_from_torch(machine):
    new, old = read_cards().cards
    assert (new.name, new.capability, new.free_bytes, new.trouble) == (
        "RTX 3090",
        (8, 6),
        5 * GIB,
        "",
    )
    assert "7.5" in old.trouble
    assert old.free_bytes == 0  # no context was made on what is not used


def test_among_several_cards_the_driver_is_asked_before_a_context_is_made(machine, monkeypatch):
    import torch

    cards, free = machine
    cards[1] = Properties("RTX 3080", (8, 6))
    free[0] = free[1] = RuntimeError("a context was made")
    monkeypatch.setattr(torch.cuda, "device_memory_used", lambda index: (index + 1) * GIB)
    assert [card.free_bytes for card in read_cards().cards] == [23 * GIB, 22 * GIB]


def test_a_card_without_room_for_a_context_is_told(machine):
    _, free = machine
    free[0] = RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported")
    (card, _) = read_cards().cards
    assert card.trouble == "cannot be opened: CUDA error: out of memory"


@pytest.mark.parametrize("is_raised", [True, False])
def test_a_driver_that_torch_cannot_use_is_told_in_its_words(machine, monkeypatch, is_raised):
    import torch

    def is_available():
        if is_raised:
            raise RuntimeError("driver too old")
        warnings.warn("driver too old", stacklevel=1)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    assert read_cards().trouble == "driver too old"


def test_a_build_for_processors_is_not_asked_for_cards(monkeypatch):
    import torch

    def fail():
        raise AssertionError("torch.cuda was used")

    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.cuda, "is_available", fail)
    assert read_cards().cards == ()


def test_torch_is_not_imported_before_a_device_is_looked_for():
    code = (
        "import sys; from localpaged.config import Settings; from localpaged.devices import *;"
        "choose_device(Settings('m', device='cpu')); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
