"""A decoder whose matrices are in 8 or 4 bits answers as one with the dense numbers they mean.

Their kernels are interpreted, in float32, so both compute the same but for the order of sums; the
other operators are torch's, which take less time.
"""

import os

import pytest
import torch

from localpaged.engine.linear import make_linear
from localpaged.engine.native import NativeDecoder
from localpaged.models.open_model import open_model
from localpaged.models.weights import load_state
from localpaged_kernels.quantised_linear import triton_impl
from localpaged_kernels.quantised_linear.reference import GROUP, QuantisedMatrix, dequantise
from testkit.decoders import load_decoder, make_decoder_core
from testkit.engine_runs import make_request, run
from testkit.tiny_model import save_tiny_model

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="tensors are the CPU's"
)

FORMS = ("int8", "int4")
PROMPT = torch.randint(3, 300, (40,), generator=torch.Generator().manual_seed(1)).tolist()


def dense(state):
    """Return the state dict with the numbers that its matrices mean."""
    made = {}
    for name, tensor in state.items():
        stem, _, kind = name.rpartition(".")
        if kind in FORMS:
            scales = state[f"{name}_scales"]
            made[f"{stem}.weight"] = dequantise(
                QuantisedMatrix(tensor, scales, len(scales) * GROUP)
            )
        elif not kind.endswith("_scales"):
            made[name] = tensor
    return made


def decoders(folder, family, form, **overrides):
    """Return a decoder of a tiny model in that form, and one of the numbers that it means."""
    opened = open_model(save_tiny_model(folder, family, **overrides))
    state = load_state(opened, dtype=torch.float32, weights=form)
    assert f"layers.0.down.{form}" in state
    assert ("embed.int8" if opened.config.is_tied else f"embed.{form}") in state
    return [NativeDecoder(opened.config, numbers) for numbers in (state, dense(state))]


def answers(decoder, requests, **config):
    core = make_decoder_core(decoder, **config)
    outcomes = run(core, requests)
    core.check()
    return {name: outcome.token_ids for name, outcome in outcomes.items()}


@pytest.mark.parametrize(
    ("family", "form"),
    [("llama", "int4"), ("qwen2", "int8"), ("qwen3", "int4")],
    ids=["untied", "biases", "tied"],
)
def test_alone_in_a_batch_and_in_chunks(tmp_path, family, form):
    packed, plain = decoders(tmp_path, family, form, num_hidden_layers=1)
    prompts = {"long": PROMPT[:22], "short": PROMPT[30:35]}
    expected, found = {}, {}
    for name, prompt in prompts.items():
        alone = [make_request(name, prompt, max_tokens=3)]
        expected |= answers(plain, alone)
        found |= answers(packed, alone, step_tokens=12)
    assert found == expected
    together = [make_request(name, prompt, max_tokens=3) for name, prompt in prompts.items()]
    assert answers(packed, together) == expected
    assert len({tuple(tokens) for tokens in expected.values()}) == 2


def test_more_rows_than_one_program_has_are_multiplied_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(triton_impl, "PACKED_ROWS", 8)
    monkeypatch.setattr(triton_impl, "PIECE_NUMBERS", 40 * 64)
    packed, plain = decoders(tmp_path, "qwen2", "int4", num_hidden_layers=1)
    request = [make_request("a", PROMPT, max_tokens=3)]
    assert answers(packed, request) == answers(plain, request)


def test_other_weights_give_other_tokens(tmp_path):
    """So the equalities above could fail."""
    _, plain = decoders(tmp_path, "qwen3", "int4")
    exact, _ = load_decoder(tmp_path)
    request = [make_request("a", PROMPT[:12], max_tokens=40)]
    assert answers(plain, request) != answers(exact, request)


@pytest.mark.parametrize("form", FORMS)
def test_16_bits_stay_close_to_the_numbers_that_are_meant(tmp_path, form):
    opened = open_model(save_tiny_model(tmp_path, "llama", num_hidden_layers=1))
    state = load_state(opened, dtype=torch.bfloat16, weights=form)
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(2))
    got = make_linear(state, "layers.0.gate_up")(x.bfloat16())
    want = x @ dense(state)["layers.0.gate_up.weight"].t()
    assert got.dtype == torch.bfloat16
    assert (got - want).abs().max() < 0.03 * want.abs().max()
