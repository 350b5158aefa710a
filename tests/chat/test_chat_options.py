"""What a chat has of its own: sampling, system text, model; and what wins over what."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.chat.sampling_options import (
    BY_NAME,
    DRY_ON,
    OPTIONS,
    find_option,
    pack_overrides,
    unpack_overrides,
    with_overrides,
)
from localpaged.engine.params import DryParams, SamplingParams
from localpaged.errors import BadParameter, NotInHistory
from testkit.builders import make_service, ready_model
from testkit.fake_model import read_prompt
from testkit.scripted_engine import ScriptedEngine


def test_every_option_is_a_field_of_the_sampling_parameters():
    defaults = SamplingParams()
    for option in OPTIONS:
        value = getattr(defaults, option.name)
        text = option.text_of(value)
        assert option.value_of(text) == value


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("temperature", " 0.7 ", 0.7),
        ("temp", "0", 0.0),
        ("top-k", "40", 40),
        ("seed", "random", None),
        ("max_tokens", "none", None),
        ("dry", "on", DRY_ON),
        ("dry", "0.5", DryParams(multiplier=0.5)),
        ("dry", "off", None),
        ("stop", r"### | \n\n |  x", ("###", "\n\n", " x")),
        ("stop", "", ()),
    ],
)
def test_a_value_is_read_as_a_person_writes_it(name, text, value):
    option = find_option(name)
    assert option.value_of(text) == value
    assert option.value_of(option.text_of(value)) == value


def test_a_limit_that_is_asked_for_shortens_a_least_length_that_is_a_default():
    defaults = SamplingParams(min_tokens=50, max_tokens=100)
    short = with_overrides(defaults, {"max_tokens": 16})
    assert (short.min_tokens, short.max_tokens) == (16, 16)
    assert with_overrides(defaults, {"max_tokens": 80}).min_tokens == 50
    assert with_overrides(defaults, {"max_tokens": None}).min_tokens == 50
    with pytest.raises(BadParameter, match="min_tokens 20 is more than max_tokens 16"):
        with_overrides(defaults, {"max_tokens": 16, "min_tokens": 20})


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("temperature", "warm", "temperature must be a number, not 'warm'"),
        ("top_k", "1.5", "top_k must be a whole number"),
        ("seed", "", "seed must be a whole number"),
        ("dry", "a lot", "dry is on, off or a multiplier"),
    ],
)
def test_a_text_that_is_no_value_is_refused(name, text, part):
    with pytest.raises(BadParameter, match=part):
        find_option(name).value_of(text)


def test_an_option_that_there_is_not_is_told_with_the_nearest():
    with pytest.raises(BadParameter) as raised:
        find_option("temprature")
    assert "temperature" in raised.value.hint


def test_overrides_survive_as_json_and_unknown_ones_are_left_out():
    overrides = {"temperature": 0.5, "dry": DRY_ON, "stop": ("a", "b"), "seed": None}
    assert unpack_overrides(pack_overrides(overrides)) == overrides
    assert unpack_overrides('{"of a later version": 1}') == {}
    assert set(overrides) <= set(BY_NAME)


def asked(service, engine, chat_id, **options):
    before = len(engine.submitted)
    turn = service.send(chat_id, "hi", **options)
    wait(engine, before + 1)
    engine.run_until_idle()
    return turn, engine.submitted[-1]


def wait(engine, count):
    with engine._changed:
        assert engine._changed.wait_for(lambda: len(engine.submitted) >= count, 10.0)


def test_a_chat_is_sampled_with_its_own_options_over_the_defaults(tmp_path: Path):
    service, engine, _ = make_service(
        tmp_path / "chats.db", sampling=SamplingParams(temperature=0.9, top_k=5)
    )
    chat, other = service.new_chat(), service.new_chat()
    service.configure(chat.id, options={"temperature": 0.1, "seed": 7, "dry": DRY_ON})
    _, request = asked(service, engine, chat.id)
    assert (request.sampling.temperature, request.sampling.top_k) == (0.1, 5)
    assert (request.sampling.seed, request.sampling.dry) == (7, DRY_ON)
    _, request = asked(service, engine, other.id)
    assert (request.sampling.temperature, request.sampling.top_k) == (0.9, 5)
    _, request = asked(service, engine, chat.id, sampling=SamplingParams(temperature=0.3))
    assert (request.sampling.temperature, request.sampling.top_k) == (0.3, 0)
    service.close()


def test_options_are_replaced_whole_and_survive_a_restart(tmp_path: Path):
    service, _, _ = make_service(tmp_path / "chats.db")
    chat = service.new_chat()
    service.configure(chat.id, options={"temperature": 0.1})
    service.configure(chat.id, options={"top_k": 3}, model="other")
    service.close()
    service, _, _ = make_service(tmp_path / "chats.db")
    (saved,) = service.chats()
    assert (unpack_overrides(saved.options), saved.model) == ({"top_k": 3}, "other")
    assert service.sampling_of(saved).temperature == SamplingParams().temperature
    service.close()


def test_a_continued_answer_takes_what_the_chat_has_of_its_own_now(tmp_path: Path):
    engine = ScriptedEngine([["a"] * 9])
    service, _, recorder = make_service(tmp_path / "chats.db", engine=engine)
    chat = service.new_chat()
    sampling = SamplingParams(max_tokens=2, top_k=4, dry=DRY_ON, logit_bias=((1, 0.5),))
    turn, _ = asked(service, engine, chat.id, sampling=sampling)
    recorder.wait_ended(turn.id)
    service.configure(chat.id, options={"max_tokens": 5, "temperature": 1.5})
    service.continue_turn(turn.id)
    wait(engine, 2)
    continued = engine.submitted[-1].sampling
    assert (continued.max_tokens, continued.temperature) == (5, 1.5)
    assert (continued.top_k, continued.dry, continued.logit_bias) == (4, DRY_ON, ((1, 0.5),))
    service.close()


def test_another_system_text_is_sent_and_none_takes_the_old_one_back(tmp_path: Path):
    service, engine, recorder = make_service(tmp_path / "chats.db")
    chat = service.new_chat(system="old")
    for system, told in (("new [b]\ud800", "new [b]\ufffd"), ("", None), (None, "old")):
        saved = service.configure(chat.id, system=system)
        assert saved.system == (told if system else system)
        turn, request = asked(service, engine, chat.id)
        recorder.wait_ended(turn.id)
        pairs = read_prompt(request.prompt_ids)
        assert [text for role, text in pairs if role == "system"] == ([told] if told else [])
    service.close()


def test_what_cannot_be_changes_nothing(tmp_path: Path):
    service, _, _ = make_service(tmp_path / "chats.db", model=ready_model())
    chat = service.new_chat()
    with pytest.raises(BadParameter, match="temperature must be from 0 to 100, not 200"):
        service.configure(chat.id, options={"temperature": 200.0}, system="x")
    with pytest.raises(NotInHistory):
        service.configure("nix", options={})
    assert service.chats()[0].system is None
    service.close()
