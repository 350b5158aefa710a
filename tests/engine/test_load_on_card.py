"""A model is loaded onto a card and answers: all of `load_core`, its kernels interpreted.

The card's layer is the fake one on the CPU, which counts; everything else is what a card gets.
"""

from __future__ import annotations

import os
import weakref

import pytest
import torch

from localpaged import load_devices
from localpaged.cards import Card, Cards
from localpaged.config import Settings
from localpaged.devices import choose_device
from localpaged.engine.events import LoadEvent
from localpaged.engine_factory import load_core
from localpaged.errors import ConfigError, NoRoom
from localpaged.fitting.fit import least_plan
from localpaged.fitting.room import Room
from localpaged.kv_files.folder import kv_root
from localpaged.load_devices import CardBytes, ThisMachine
from localpaged.memory_plan import LEFT_BYTES
from localpaged.models.open_model import open_model
from testkit.engine_runs import make_request, run
from testkit.fake_device import FakeDevice
from testkit.gguf_files import save_tiny_gguf
from testkit.specialisations import CompilingDevice
from testkit.tiny_model import save_tiny_model

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="tensors are the CPU's"
)

GIB = 2**30
PROMPT = torch.randint(3, 300, (21,), generator=torch.Generator().manual_seed(1)).tolist()


class SmallDevice(FakeDevice):
    """A fake card with so much free memory."""

    def __init__(self, free_bytes: int) -> None:
        super().__init__()
        self.free = free_bytes

    def free_bytes(self) -> int:
        return self.free


class CardMachine:
    """A Machine with one card."""

    expects_card = True

    def __init__(self, free_bytes: int = 8 * GIB, cards: Cards | None = None) -> None:
        card = Card(0, "H200", (9, 0), 139 * GIB, free_bytes)
        self.cards = Cards("13.0", (card,), triton="3.9.0") if cards is None else cards
        self.layer = SmallDevice(free_bytes)

    def choose(self, settings):
        return choose_device(settings, self.cards)

    def open(self, device):
        return self.layer if device.is_cuda else None


@pytest.fixture(autouse=True)
def few_queries(monkeypatch):
    """Interpreted, each query that fills a chunk up takes its time."""
    monkeypatch.setattr("localpaged.engine.gpu_runner.SHORT_CHUNK", 4)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "qwen3"
    save_tiny_model(folder, "qwen3", num_hidden_layers=1)
    return open_model(folder)


def load(opened, machine=None, *, context_tokens=128, **settings):
    events = []
    settings = Settings("tiny", context_tokens=context_tokens, kv_memory_bytes=4 << 20, **settings)
    machine = machine or CardMachine()
    core, ready = load_core(lambda: opened, settings, events.append, machine=machine)
    return core, ready, events


def answer(core, prompt=PROMPT, num_tokens=4):
    (outcome,) = run(core, [make_request("a", prompt, max_tokens=num_tokens)]).values()
    return outcome.token_ids


def test_it_answers_as_the_processor_does_and_tells_where_it_is(opened):
    machine = CardMachine()
    core, ready, _ = load(opened, machine, dtype="float32")
    on_processor, other, _ = load(opened, device="cpu", dtype="float32")
    assert answer(core) == answer(on_processor)
    assert machine.layer.num_replays > 0  # decodes were recorded steps
    picture = core.snapshot()
    assert (ready.device, picture.device) == ("cuda:0", "cuda:0")
    assert (picture.device_total_bytes, picture.device_free_bytes) == (139 * GIB, 8 * GIB)
    assert (other.device, on_processor.snapshot().device) == ("cpu", "cpu")
    assert on_processor.snapshot().device_total_bytes is None
    core.check()


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({}, "bfloat16"),
        ({"dtype": "float16"}, "float16"),
        ({"kv_dtype": "int8"}, "bfloat16"),
        ({"kv_dtype": "fp8"}, "bfloat16"),
        ({"dtype": "int8"}, "int8"),
        ({"dtype": "int4", "kv_dtype": "int8"}, "int4"),
    ],
    ids=str,
)
def test_every_format_of_a_card_answers(opened, settings, name):
    core, ready, _ = load(opened, **settings)
    assert ready.dtype == name
    assert len(answer(core, PROMPT[:5], num_tokens=2)) == 2


@pytest.mark.parametrize(
    ("quantisation", "name", "bits"), [("Q4_1", "int4", 5), ("Q8_0", "int8", 8.5)]
)
def test_a_file_in_8_or_4_bits_stays_so_and_is_told_as_what_it_is(
    tmp_path, quantisation, name, bits
):
    path = save_tiny_gguf(tmp_path, "llama", quantisation=quantisation, num_hidden_layers=1)
    opened = open_model(path)
    core, ready, events = load(opened)
    picture = core.snapshot()
    assert (ready.dtype, picture.dtype) == (name, name)
    planned = next(e.done for e in events if e.stage == "Memory for weights of what is free")
    assert picture.weight_bytes == planned == opened.weight_bytes(2, "file")
    numbers = opened.num_parameters - 3 * 64  # but for norms
    assert planned == numbers * bits / 8 + 3 * 64 * 2
    assert len(answer(core, PROMPT[:5], num_tokens=2)) == 2
    core.check()


@pytest.mark.parametrize("dtype", ["auto", "int8"])
def test_kernels_are_compiled_while_it_is_loaded(opened, dtype):
    machine = CardMachine()
    machine.layer = CompilingDevice()
    core, _, events = load(opened, machine, dtype=dtype)
    told = [(e.done, e.total) for e in events if e.stage == "Compiling kernels"]
    assert told == [(done, told[0][1]) for done in range(told[0][1] + 1)]
    built = set(machine.layer.built)
    assert built and machine.layer.num_captures == 1
    answer(core)
    assert set(machine.layer.built) == built


class HeavyGraphs(SmallDevice):
    """A card on which each recorded step takes so much, and pools what they are made with."""

    def __init__(self, free_bytes, *, graph_bytes):
        super().__init__(free_bytes)
        self.graph_bytes = graph_bytes
        self.left = weakref.WeakSet()

    def capture(self, work):
        graph = super().capture(work)
        self.left.add(graph)
        return graph

    def free_bytes(self):
        return self.free - len(self.left) * self.graph_bytes


def load_heavy(opened, *, graph_bytes, free_bytes, **settings):
    machine = CardMachine()
    machine.layer = HeavyGraphs(free_bytes, graph_bytes=graph_bytes)
    looks = [8 * GIB]

    def free():
        return looks.pop() if looks else free_bytes - len(machine.layer.left) * graph_bytes

    machine.layer.free_bytes = free
    core, _, events = load(opened, machine, **settings)
    return core, [event.stage for event in events], machine.layer


def test_its_pool_gives_room_to_recorded_steps_that_take_more_than_was_planned(opened):
    plenty, stages, _ = load_heavy(opened, graph_bytes=1 << 20, free_bytes=GIB)
    assert "Making room for recorded steps" not in stages
    # one step is recorded, fifteen may follow, and some is to be left: 2 MiB are missing
    free_bytes = LEFT_BYTES + (16 << 20) - (2 << 20)
    core, stages, layer = load_heavy(opened, graph_bytes=1 << 20, free_bytes=free_bytes)
    assert "Making room for recorded steps" in stages
    block_bytes = plenty.snapshot().block_bytes
    given = plenty.config.num_blocks - core.config.num_blocks
    assert given == (2 << 20) // block_bytes
    assert core.config.context_length == plenty.config.context_length
    assert len(layer.left) == 1, "the first runner's step is gone"
    assert len(answer(core)) == 4
    core.check()


def test_where_the_pool_has_no_block_to_spare_fewer_steps_are_recorded(opened):
    free_bytes = LEFT_BYTES + (6 << 20)
    core, _, layer = load_heavy(
        opened, graph_bytes=1 << 20, free_bytes=free_bytes, context_tokens=512
    )
    assert core.config.num_blocks == 32
    assert core.snapshot().runner_note.startswith("The card has room for 6 of 16 recorded steps")
    requests = [make_request(f"{i}", [i + 3] * 5, max_tokens=3) for i in range(9)]
    outcomes = run(core, requests)
    assert all(len(outcome.token_ids) == 3 for outcome in outcomes.values())
    assert len(layer.left) <= 6


def test_its_bytes_are_told_by_purpose_before_it_is_loaded(opened):
    _, _, events = load(opened)
    stages = [event.stage for event in events]
    assert "Opening cuda:0 (H200)" in stages
    parts = {event.stage: event.done for event in events if event.unit == "bytes"}
    total = parts["Memory needed of what is free"]
    purposes = ("for weights", "for KV", "to compute", "for graphs", "in reserve")
    assert total == sum(parts[f"Memory {purpose} of what is free"] for purpose in purposes)
    told = [e for e in events if e.stage.startswith("Memory ")]
    assert {event.total for event in told} == {8 * GIB}
    assert stages.index("Memory needed of what is free") < stages.index("Loading weights")


def test_what_does_not_fit_is_refused_with_the_setting_that_is_then_loaded(opened):
    asked = Settings("tiny", context_tokens=128, kv_memory_bytes=4 << 20)
    least = least_plan(opened, asked, Room(CardMachine().choose(asked), 139 * GIB, 0, 0, 0))
    # the pool that is asked for is 4 MiB
    machine = CardMachine(least.total_bytes - least.kv_bytes + (2 << 20))
    with pytest.raises(NoRoom, match=r"on cuda:0 \(H200\)") as refused:
        load(opened, machine)
    assert refused.value.hint == "It fits with no --kv-memory."
    events: list[LoadEvent] = []
    settings = Settings("tiny", context_tokens=128)
    core, _ = load_core(lambda: opened, settings, events.append, machine=machine)
    assert len(answer(core, PROMPT[:5], num_tokens=2)) == 2


def test_a_second_model_is_told_and_refused_by_what_the_first_one_left(opened):
    machine = CardMachine()
    load(opened, machine)
    machine.layer.free = 1 << 20
    events: list[LoadEvent] = []
    settings = Settings("tiny", context_tokens=128, device="cuda")
    with pytest.raises(NoRoom, match=r"0\.00 GiB are free"):
        load_core(lambda: opened, settings, events.append, machine=machine)
    assert events[-1].stage == "Memory needed of what is free"
    assert events[-1].total == 1 << 20


def test_host_memory_for_kv_is_there_beside_a_card(opened):
    core, _, _ = load(opened, dtype="float32", host_memory_bytes=1 << 20)
    assert core.snapshot().host_total_blocks > 0


def test_kv_of_a_card_is_kept_in_files_apart_from_the_processors(opened, home):
    prompt = PROMPT * 7  # enough for a file
    found = 0
    for device, num_folders in (("cuda", 1), ("cpu", 2), ("cuda", 2)):
        core, _, _ = load(
            opened, context_tokens=256, device=device, dtype="float32", kv_disk_bytes=1 << 24
        )
        (outcome,) = run(core, [make_request("a", prompt, max_tokens=1)]).values()
        found = outcome.prefill[-1].restored_tokens
        core.park(wait_s=10.0)
        assert len({path.parent for path in kv_root().glob("*/*.safetensors")}) == num_folders
    assert found == 144  # the second time on a card, from the first


def test_a_card_that_is_asked_for_and_not_there_is_refused(opened, caplog):
    machine = CardMachine(cards=Cards())
    with pytest.raises(ConfigError, match="Models cannot be computed on cuda"):
        load(opened, machine, device="cuda")
    _, ready, _ = load(opened, machine)
    assert ready.device == "cpu"
    assert "on the processor: this torch is a build without CUDA" in caplog.text


def test_all_models_of_a_run_are_on_one_card_though_another_has_more_free_by_then(monkeypatch):
    first, second = (CardMachine(free_bytes=n).choose(Settings("m")) for n in (5, 6))
    choices = iter([first, second])
    monkeypatch.setattr(load_devices, "choose_device", lambda settings: next(choices))
    machine = ThisMachine()
    assert machine.choose(Settings("m")) is machine.choose(Settings("m")) is first


def test_a_refused_device_is_looked_for_again(monkeypatch):
    def refuse(settings):
        raise ConfigError("not there")

    machine = ThisMachine()
    monkeypatch.setattr(load_devices, "choose_device", refuse)
    with pytest.raises(ConfigError):
        machine.choose(Settings("m"))
    monkeypatch.undo()
    assert machine.choose(Settings("m", device="cpu")).label == "cpu"


def test_a_cards_memory_is_looked_at_once_a_second():
    now, layer = [10.0], SmallDevice(5)
    device = CardMachine().choose(Settings("m"))
    look = CardBytes(layer, device, clock=lambda: now[0])
    assert look() == (139 * GIB, 5)
    layer.free = 4
    assert look() == (139 * GIB, 5)
    now[0] += 1.0
    assert look() == (139 * GIB, 4)
