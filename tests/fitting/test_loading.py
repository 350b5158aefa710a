"""What a refusal on the processor names is what then loads and answers."""

from __future__ import annotations

from dataclasses import replace

import psutil
import pytest

from localpaged.config import Settings
from localpaged.engine.params import BLOCK_SIZE_TOKENS
from localpaged.engine_factory import load_core
from localpaged.errors import NoRoom
from localpaged.fitting.fit import fit_of
from localpaged.fitting.nearest import nearest
from localpaged.fitting.room import room_on
from localpaged.models.open_model import open_model
from testkit.engine_runs import make_request, run
from testkit.tiny_model import save_tiny_model

ASKED = Settings("tiny", device="cpu", dtype="float32", context_tokens=512)


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "llama"
    save_tiny_model(folder, "llama")
    return open_model(folder)


def load(opened, settings):
    events = []
    core, _ = load_core(lambda: opened, settings, events.append)
    return core, events


@pytest.fixture
def has_free(monkeypatch):
    """Let the machine have so many bytes free."""
    memory = psutil.virtual_memory()

    def has_free(num_bytes):
        monkeypatch.setattr(
            psutil, "virtual_memory", lambda: memory._replace(available=int(num_bytes))
        )

    return has_free


@pytest.mark.parametrize("share", [0.6, 0.3])
def test_the_setting_that_a_refusal_names_is_loaded_and_answers(opened, has_free, share):
    plan = fit_of(opened, ASKED, room_on()).plan
    has_free(plan.total_bytes - plan.kv_bytes * (1 - share))
    with pytest.raises(NoRoom) as refused:
        load(opened, ASKED)
    found = nearest(opened, ASKED, room_on())
    assert found is not None and found.options in refused.value.hint
    core, _ = load(opened, found.settings)
    assert core.config.context_length >= BLOCK_SIZE_TOKENS
    (outcome,) = run(core, [make_request("a", range(3, 20), max_tokens=2)]).values()
    assert len(outcome.token_ids) == 2


def test_stats_are_told_the_same_device_and_numbers_as_the_chat(opened):
    core, ready = load_core(lambda: opened, ASKED, lambda event: None)
    told = core.snapshot()
    assert (told.device, told.dtype) == (ready.device, ready.dtype) == ("cpu", "float32")


def test_a_second_model_is_told_before_it_is_refused(opened, has_free):
    has_free(1 << 20)
    events = []
    with pytest.raises(NoRoom, match="are free"):
        load_core(lambda: opened, replace(ASKED, context_tokens=64), events.append)
    assert events[-1].stage == "Memory needed of what is free"
    assert events[-1].total == 1 << 20
