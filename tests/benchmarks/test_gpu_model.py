"""The model of a GPU counts what a kernel moves and computes, and says that it is a model."""

import pytest

import gpu_model
from gpu_check_parts.shapes import MODELS, QWEN3_06B, QWEN3_4B, num_parameters
from gpu_model import (
    CARDS,
    WEIGHT_BITS,
    bound_tokens_per_s,
    kernels_of,
    longest_context,
    written_in,
)
from localpaged.models.opened_model import bytes_in_form

CARD = CARDS[1]


def step(name, **numbers):
    return {k.name: k for k in kernels_of(MODELS[name], **{"sequences": 1, "tokens": 1, **numbers})}


@pytest.mark.parametrize(
    ("name", "billions"), [("Qwen3 8B", 8.19), ("Qwen3 4B", 4.02), ("Qwen3 0.6B", 0.596)]
)
def test_the_shapes_are_those_of_the_models(name, billions):
    assert num_parameters(MODELS[name]) / 1e9 == pytest.approx(billions, rel=2e-3)


@pytest.mark.parametrize("name", MODELS)
def test_a_step_reads_every_weight_once_and_no_other_large_thing(name):
    config = MODELS[name]
    moved = sum(kernel.runs * kernel.moved_bytes for kernel in step(name).values())
    embedding = 0 if config.is_tied else config.vocab_size * config.hidden_size
    assert moved == pytest.approx(2 * (num_parameters(config) - embedding), rel=0.01)


@pytest.mark.parametrize("weights", ["int8", "int4"])
@pytest.mark.parametrize("name", MODELS)
def test_weights_in_fewer_bits_are_read_as_what_they_take_in_memory(name, weights):
    config = MODELS[name]
    moved = sum(kernel.runs * kernel.moved_bytes for kernel in step(name, weights=weights).values())
    words = config.vocab_size * config.hidden_size
    embedding = 0 if config.is_tied else words * WEIGHT_BITS[weights] / 8
    held = bytes_in_form(config, (), 2, weights)
    assert moved == pytest.approx(held - embedding, rel=0.015)


def test_a_card_of_8_gb_has_room_for_8_billion_weights_in_4_bits_alone():
    config, card = MODELS["Qwen3 8B"], CARDS[0]
    for weights, fits in (("bfloat16", False), ("int8", False), ("int4", True)):
        assert (
            longest_context("Qwen3 8B", card, kv_format="int8", weights=weights) is None
        ) != fits
    one = {w: bound_tokens_per_s(config, CARDS[1], sequences=1, weights=w) for w in WEIGHT_BITS}
    assert 1.8 < one["int8"] / one["bfloat16"] < 1.9
    assert 2.8 < one["int4"] / one["bfloat16"] < 3.2


def test_attention_reads_the_kv_of_every_token_and_eight_bits_are_half_of_it():
    config = MODELS[QWEN3_4B]
    attention = step(QWEN3_4B, sequences=3, tokens=10_000)["paged attention"]
    whole = 3 * 10_000 * config.kv_bytes_per_token(2)
    assert attention.runs * attention.moved_bytes == pytest.approx(whole, rel=0.01)
    eight_bit = step(QWEN3_4B, sequences=3, tokens=10_000, kv_format="int8")["paged attention"]
    assert eight_bit.moved_bytes / attention.moved_bytes == pytest.approx(0.516, rel=0.01)


def test_few_sequences_are_bound_by_memory_and_many_by_computing():
    few, many = (step(QWEN3_4B, sequences=n)["linear: gate and up"] for n in (1, 4_096))
    assert few.is_bound_by_memory(CARD)
    assert not many.is_bound_by_memory(CARD)
    assert few.least_s(CARD) == few.runs * few.moved_bytes / CARD.bytes_per_s
    assert many.least_s(CARD) == many.runs * many.operations / CARD.operations_per_s


def test_more_sequences_give_more_tokens_until_they_do_not_fit():
    config = MODELS[QWEN3_06B]
    bounds = [bound_tokens_per_s(config, CARD, sequences=n) for n in (1, 8, 32)]
    assert bounds == sorted(bounds)
    assert bound_tokens_per_s(config, CARD, sequences=10_000) is None
    assert bound_tokens_per_s(MODELS["Qwen3 8B"], CARDS[0], sequences=1) is None


def test_a_smaller_kv_has_room_for_a_longer_context():
    whole = longest_context(QWEN3_06B, CARD, kv_format="bfloat16")
    half = longest_context(QWEN3_06B, CARD, kv_format="int8")
    assert 1.7 * whole < half < 2.1 * whole
    assert longest_context("Qwen3 8B", CARDS[0], kv_format="int8") is None


def test_the_document_has_the_tables_of_now():
    document = gpu_model.DOCUMENT.read_text()
    told = document.split(gpu_model.MARKS[0])[1].split(gpu_model.MARKS[1])[0]
    assert told.strip() == gpu_model.tables(), "run `python benchmarks/gpu_model.py --write`"
    assert "a model, not a measurement" in document.lower()


def test_a_document_without_a_place_for_the_tables_is_refused():
    with pytest.raises(ValueError, match="no place"):
        written_in("nothing", "tables")


def test_the_script_says_that_it_measures_nothing(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["gpu_model.py"])
    assert gpu_model.main() == 0
    assert capsys.readouterr().out.startswith("A MODEL, NOT A MEASUREMENT")
