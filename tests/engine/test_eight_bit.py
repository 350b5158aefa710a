"""Eight bits: turning changes nothing, rounding little, and no row another one."""

from dataclasses import replace

import pytest
import torch

from localpaged.engine.eight_bit import can_be_eight_bit, hadamard, to_eight_bit, turn, turned
from localpaged.engine.linear import EightBitLinear
from localpaged.engine.native import NativeDecoder
from localpaged.models.open_model import open_model
from localpaged.models.weights import load_state
from testkit.decoders import load_eight_bit, make_decoder_core
from testkit.decoders import needs_eight_bit as needs_operator
from testkit.engine_runs import make_request, run
from testkit.tiny_model import FAMILIES, save_tiny_model

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6]


@pytest.fixture(scope="module", params=FAMILIES)
def opened(request, tmp_path_factory):
    return open_model(save_tiny_model(tmp_path_factory.mktemp("m") / request.param, request.param))


def logprobs(decoder):
    """Return what a decoder thinks of a prompt and of a few tokens behind it."""
    asked = make_request("a", PROMPT, max_tokens=8, logprobs=0, prompt_logprobs=0)
    outcome = run(make_decoder_core(decoder), [asked])["a"]
    assert outcome.fail is None
    return torch.tensor([t.logprob for t in (*outcome.prompt_logprobs, *outcome.logprobs)])


def test_a_turned_model_says_the_same(opened):
    state = load_state(opened, dtype=torch.float32)
    expected = logprobs(NativeDecoder(opened.config, dict(state)))
    whole = turned(opened.config, state)
    assert not state, "nothing is held twice"
    for index in range(opened.config.num_layers):
        # What `down` reads is not turned by dense weights: back again.
        block = whole.pop(f"layers.{index}.down.turn")
        down = f"layers.{index}.down.weight"
        whole[down] = turn(whole[down], block)
    decoder = NativeDecoder(replace(opened.config, is_tied=False), whole)
    torch.testing.assert_close(logprobs(decoder), expected, atol=2e-4, rtol=0)


@needs_operator
def test_eight_bits_say_nearly_the_same(opened):
    state = load_state(opened, dtype=torch.float32)
    expected = logprobs(NativeDecoder(opened.config, dict(state)))[: len(PROMPT) - 1]
    decoder = NativeDecoder(opened.config, to_eight_bit(opened.config, state))
    found = logprobs(decoder)[: len(PROMPT) - 1]
    assert (found - expected).abs().mean() < 0.25, "of logits as wide as 3"


@needs_operator
def test_what_is_said_of_a_prompt_hardly_depends_on_who_is_answered_beside_it(opened):
    decoder, _ = load_eight_bit(opened.source)
    asked = [make_request(str(n), PROMPT[n:], prompt_logprobs=0) for n in range(6)]
    together = run(make_decoder_core(decoder), asked)
    for request in asked:
        alone = run(make_decoder_core(decoder), [request])[request.id].prompt_logprobs
        beside = together[request.id].prompt_logprobs
        errors = [abs(a.logprob - b.logprob) for a, b in zip(alone, beside, strict=True)]
        assert sum(errors) / len(errors) < 0.02


def linear(*, is_turned=False, size=64):
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(24, size, generator=generator)
    scales = weight.abs().amax(1) / 127
    block = hadamard(16) if is_turned else None
    stored = weight if block is None else turn(weight, block)
    scales = stored.abs().amax(1) / 127
    numbers = (stored / scales[:, None]).round().char()
    bias = torch.randn(24, generator=generator)
    return weight, bias, EightBitLinear(numbers, scales, bias, turn=block)


@needs_operator
@pytest.mark.parametrize("rows", [1, 2, 40])
@pytest.mark.parametrize("is_turned", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_projection_is_what_its_weights_say(rows, is_turned, dtype):
    weight, bias, project = linear(is_turned=is_turned)
    x = torch.randn(rows, 64).to(dtype)
    expected = x.float() @ weight.T + bias
    error = (project(x) - expected).norm() / expected.norm()
    assert project(x).dtype == torch.float32
    assert error < 0.02


@needs_operator
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_row_gets_the_same_numbers_whatever_is_beside_it(is_turned):
    _, _, project = linear(is_turned=is_turned)
    x = torch.randn(40, 64) * torch.logspace(-6, 6, 40).unsqueeze(1)
    together = project(x)
    for rows in (slice(0, 1), slice(7, 9), slice(39, 40), slice(3, 30)):
        assert torch.equal(project(x[rows]), together[rows])


@needs_operator
def test_a_loud_row_does_not_make_the_others_coarse():
    weight, bias, project = linear()
    x = torch.randn(5, 64)
    x[2] *= 1e6
    expected = x @ weight.T + bias
    errors = (project(x) - expected).norm(dim=1) / expected.norm(dim=1)
    assert errors.max() < 0.03


@needs_operator
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("is_turned", [False, True])
def test_a_row_that_is_not_finite_stays_visible_and_alone(bad, rows, is_turned):
    _, _, project = linear(is_turned=is_turned)
    x = torch.randn(rows, 64)
    good = project(x)
    x[0, 7] = bad
    y = project(x)
    assert not y[0].isfinite().any()
    assert torch.equal(y[1:], good[1:])


@needs_operator
def test_a_row_of_zeros_is_the_bias():
    _, bias, project = linear()
    torch.testing.assert_close(project(torch.zeros(1, 64))[0], bias)
    torch.testing.assert_close(project(torch.zeros(2, 64))[1], bias)


@needs_operator
@pytest.mark.parametrize(
    ("abilities", "changes", "expected"),
    [
        ({"avx512_vnni": True}, {}, True),
        ({"avx_vnni": True}, {}, True),
        ({"avx2": True}, {}, False),
        ({"avx512_vnni": True, "amx_bf16": True}, {}, False),
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
