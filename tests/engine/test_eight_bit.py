"""Eight bits: turning changes nothing, rounding little, and no row another one."""

from dataclasses import replace

import pytest
import torch

from localpaged.engine.eight_bit import can_be_eight_bit, to_eight_bit, turn, turned
from localpaged.engine.native import NativeDecoder
from localpaged.engine.team_decoder import TeamDecoder
from localpaged.models.open_model import open_model
from localpaged.models.weights import load_state
from testkit.decoders import load_eight_bit, make_decoder_core
from testkit.decoders import needs_eight_bit as needs_operator
from testkit.engine_runs import make_request, run
from testkit.tiny_model import FAMILIES, MORE_FAMILIES, save_tiny_model

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6]


@pytest.fixture(scope="module", params=[*FAMILIES, *MORE_FAMILIES])
def opened(request, tmp_path_factory):
    opened = open_model(
        save_tiny_model(tmp_path_factory.mktemp("m") / request.param, request.param)
    )
    if not opened.config.has_pre_norms:
        assert not can_be_eight_bit(opened.config)
        pytest.skip(f"{request.param} normalises all heads together")
    return opened


@pytest.fixture
def fit(opened):
    """Return a model that the program would run in 8 bits here."""
    if not can_be_eight_bit(opened.config):
        pytest.skip(f"heads of {opened.config.head_dim} are not for 8 bits")
    return opened


def logprobs(decoder):
    """Return what a decoder thinks of a prompt and of a few tokens behind it."""
    asked = make_request("a", PROMPT, max_tokens=8, logprobs=0, prompt_logprobs=0)
    outcome = run(make_decoder_core(decoder), [asked])["a"]
    assert outcome.fail is None
    return torch.tensor([t.logprob for t in (*outcome.prompt_logprobs, *outcome.logprobs)])


def turn_back(config, state):
    """Make a dense model of a turned one: what is turned while it runs is turned in weights."""
    read = state.pop("read.turn", None)
    for index in range(config.num_layers):
        prefix = f"layers.{index}."
        turns = {"down": state.pop(f"{prefix}down.turn")}
        if read is not None:
            turns |= {"qkv": read, "gate_up": read}
        for name, block in turns.items():
            state[f"{prefix}{name}.weight"] = turn(state[f"{prefix}{name}.weight"], block)
        for norm in ("attn_norm", "mlp_norm"):
            state.setdefault(f"{prefix}{norm}.weight", torch.ones(config.hidden_size))
    if read is not None:
        state["head.weight"] = turn(state["head.weight"], read)
    state.setdefault("norm.weight", torch.ones(config.hidden_size))


def test_a_turned_model_says_the_same(opened):
    state = load_state(opened, dtype=torch.float32)
    expected = logprobs(NativeDecoder(opened.config, dict(state)))
    whole = turned(opened.config, state)
    assert not state, "nothing is held twice"
    turn_back(opened.config, whole)
    decoder = NativeDecoder(replace(opened.config, is_tied=False), whole)
    torch.testing.assert_close(logprobs(decoder), expected, atol=2e-4, rtol=0)


@needs_operator
def test_eight_bits_say_nearly_the_same(fit):
    state = load_state(fit, dtype=torch.float32)
    expected = logprobs(NativeDecoder(fit.config, dict(state)))[: len(PROMPT) - 1]
    decoder = TeamDecoder(fit.config, to_eight_bit(fit.config, state), threads=2)
    found = logprobs(decoder)[: len(PROMPT) - 1]
    assert (found - expected).abs().mean() < 0.25, "of logits as wide as 3"


@needs_operator
def test_what_is_said_of_a_prompt_depends_on_nobody_answered_beside_it(fit):
    decoder, _ = load_eight_bit(fit.source)
    asked = [make_request(str(n), PROMPT[n:], prompt_logprobs=0) for n in range(6)]
    together = run(make_decoder_core(decoder), asked)
    for request in asked:
        alone = run(make_decoder_core(decoder), [request])[request.id].prompt_logprobs
        beside = together[request.id].prompt_logprobs
        assert [a.logprob for a in alone] == [b.logprob for b in beside]


@needs_operator
@pytest.mark.parametrize(
    ("abilities", "changes", "expected"),
    [
        ({"avx512_vnni": True}, {}, True),
        ({"avx_vnni": True}, {}, True),
        ({"avx2": True}, {}, True),
        ({"avx512_bf16": True}, {}, False),
        ({"avx512_vnni": True, "amx_bf16": True}, {}, True),
        ({"avx512_vnni": True}, {"hidden_size": 100}, False),
        ({"avx512_vnni": True}, {"head_dim": 80}, True),
        ({"avx512_vnni": True}, {"head_dim": 72}, False),
    ],
)
def test_eight_bits_are_for_processors_and_models_that_they_suit(
    monkeypatch, tmp_path, abilities, changes, expected
):
    opened = open_model(save_tiny_model(tmp_path / "llama", "llama"))
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: abilities)
    assert can_be_eight_bit(replace(opened.config, **changes)) == expected
