"""A model that does not fit is refused with the nearest setting that does, and that one does."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import click
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localpaged.cli.options import memory_options, settings_from
from localpaged.config import Settings
from localpaged.config_file import ConfigFile
from localpaged.decoder_config import DecoderConfig
from localpaged.devices import Device
from localpaged.engine.graphs import MAX_GRAPHS, graph_sizes
from localpaged.errors import ConfigError, NoRoom
from localpaged.fitting.fit import SizedModel, fit_of, fixed_plan
from localpaged.fitting.formats import choose_formats
from localpaged.fitting.nearest import nearest, require_fit
from localpaged.fitting.pool import (
    CARD_STEP_TOKENS,
    FULL_CHATS,
    KV_SHARE_OF_CARD,
    NARROW_RUNNING,
    STEP_TOKENS,
    Steps,
    blocks_for,
    steps_on,
)
from localpaged.fitting.room import Room
from localpaged.memory_plan import (
    GRAPH_SIZES,
    PACKED_PARTS_BYTES,
    PIECE_NUMBERS,
    num_graphs,
    packed_working_bytes,
)
from localpaged.models.tensor_layout import tensor_layout
from localpaged_kernels.quantised_linear import triton_impl

GIB, MIB = 2**30, 2**20
QWEN3_4B = DecoderConfig(
    "qwen3",
    151_936,
    2_560,
    9_728,
    36,
    32,
    8,
    128,
    40_960,
    1e-6,
    1e6,
    has_qk_norm=True,
    is_tied=True,
)
BIG = SizedModel("qwen3-4b", QWEN3_4B, 2 * GIB)
RTX = Device("cuda", 0, "RTX 4090", (8, 9), 24 * GIB, 0)


@click.command()
@memory_options
def command(**options):
    """Options as a user writes them."""


def written(options):
    """Return the settings of options that were written on the command line."""
    context = command.make_context("localpaged", options.split())
    return settings_from(context.params, ConfigFile(Path("none")))


def card(free_gib, *, host_gib=8):
    return Room(RTX, 24 * GIB, int(free_gib * GIB), 64 * GIB, int(host_gib * GIB))


def beside(mib, *, dtype="auto"):
    """Return a card that has so much free beside everything but KV, with steps that take least."""
    room, asked = card(1), Settings("m", dtype=dtype)
    formats = choose_formats(BIG.config, asked, room)
    taken = fixed_plan(BIG, formats, room, steps_on(BIG.config, room)[-1])
    return replace(room, free_bytes=taken.total_bytes + mib * MIB)


def processor(free_gib):
    free = int(free_gib * GIB)
    return Room(Device(), 64 * GIB, free, 64 * GIB, free)


def follow(asked, suggestion):
    """Return the settings that a user makes who follows a suggestion: it is read as it is told."""
    taken = re.findall(r"\bno (--[a-z-]+)", suggestion)
    changes = re.sub(r"(and )?\bno --[a-z-]+", "", suggestion).split()
    left_out = {"--kv-memory": "kv_memory_bytes", "--host-memory": "host_memory_bytes"}
    defaults = Settings(asked.model)
    for name in taken:
        asked = replace(asked, **{left_out[name]: getattr(defaults, left_out[name])})
    read = written(" ".join(changes))
    fields = {
        "--context": "context_tokens",
        "--dtype": "dtype",
        "--kv-dtype": "kv_dtype",
        "--device": "device",
    }
    for word in changes[::2]:
        asked = replace(asked, **{fields[word]: getattr(read, fields[word])})
    return asked


def test_a_suggestion_is_read_as_it_is_told():
    asked = Settings("m", kv_memory_bytes=GIB, host_memory_bytes=MIB, dtype="float32")
    plain = Settings("m")
    both = "no --kv-memory and no --host-memory"
    assert follow(asked, both) == replace(plain, dtype="float32")
    assert follow(asked, f"--context 64 {both}") == replace(
        plain, dtype="float32", context_tokens=64
    )
    assert follow(plain, "--device cpu --dtype auto --kv-dtype int8") == replace(
        plain, device="cpu", kv_dtype="int8"
    )


def test_on_a_card_the_plan_has_all_its_parts_and_what_is_left_is_kv():
    fit = require_fit(BIG, Settings("m"), card(20))
    plan = fit.plan
    assert dict(plan.parts) == {
        "for weights": plan.weight_bytes,
        "for KV": plan.kv_bytes,
        "to compute": plan.working_bytes,
        "for graphs": plan.graph_bytes,
        "in reserve": plan.reserve_bytes,
    }
    assert plan.weight_bytes == BIG.weight_bytes(2)
    left = 20 * GIB - (plan.total_bytes - plan.kv_bytes)
    assert plan.kv_bytes == pytest.approx(left * KV_SHARE_OF_CARD, rel=0.01)
    assert fit.engine.initial_blocks is None  # recorded steps know the pool's address
    assert fit.engine.context_length == 40_960
    plenty = require_fit(BIG, Settings("m"), replace(card(20), free_bytes=200 * GIB))
    assert plenty.engine.num_blocks == FULL_CHATS * blocks_for(40_960)


@pytest.mark.parametrize(("vocab_size", "gib", "most"), [
    (151_936, 8, 64), (151_936, 24, 256), (32_000, 8, 256), (151_936, 139, 256),
])  # fmt: skip
def test_as_many_decode_together_as_a_sixteenth_of_the_card_has_room_for(vocab_size, gib, most):
    model = replace(BIG, config=replace(BIG.config, vocab_size=vocab_size, num_layers=2))
    room = card(gib)
    fit = require_fit(model, Settings("m"), replace(room, total_bytes=gib * GIB))
    assert fit.engine.max_running == most
    assert fit.plan.working_bytes > most * vocab_size * 4 * 6
    assert require_fit(model, Settings("m"), room.of_processor()).engine.max_running == 64


def test_formats_of_a_card_are_16_bits_unless_others_are_asked_for():
    def of(**asked):
        formats = require_fit(BIG, Settings("m", **asked), card(23)).formats
        return formats.activations, formats.projections, formats.kv

    assert set(of()) == {torch.bfloat16}
    assert set(of(dtype="float16")) == {torch.float16}
    assert of(kv_dtype="fp8")[2] == torch.float8_e4m3fn
    assert of(kv_dtype="int8") == (torch.bfloat16, torch.bfloat16, torch.int8)
    assert set(of(dtype="float32")) == {torch.float32}


def filed(type_name):
    """Return the model as a file that has all its matrices in one type."""
    names = [part.name for fused in tensor_layout(QWEN3_4B) for part in fused.parts]
    return replace(BIG, types=tuple((name, type_name) for name in names))


@pytest.mark.parametrize(
    ("model", "dtype", "name", "bits"),
    [
        (BIG, "int8", "int8", 8.5),
        (BIG, "int4", "int4", 5),
        (filed("F16"), "auto", "bfloat16", 16),
        (filed("Q8_0"), "auto", "int8", 8.5),
        (filed("Q4_K"), "auto", "int4", 5),
        (filed("Q6_K"), "auto", "int8", 8.5),
        (filed("Q4_K"), "bfloat16", "bfloat16", 16),
        (filed("Q4_K"), "int8", "int8", 8.5),
    ],
)
def test_weights_of_a_card_are_as_the_file_has_them_or_as_they_are_asked_for(
    model, dtype, name, bits
):
    fit = require_fit(model, Settings("m", dtype=dtype), card(23))
    assert fit.formats.name == name
    assert set(map(str, (fit.formats.activations, fit.formats.kv))) == {"torch.bfloat16"}
    words = 151_936 * 2_560
    layers = model.weight_bytes(2) // 2 - words
    # embeddings that are the head, too, have 8 bits where 4 are asked for
    of_words = 8.5 if dtype == "int4" else bits
    expected = (layers * bits + words * of_words) / 8
    assert fit.plan.weight_bytes == pytest.approx(expected, rel=1e-3)


def test_kv_is_told_apart_by_what_weights_are_kept_in():
    dtypes = ("auto", "bfloat16", "int8", "int4")
    formats = [require_fit(filed("Q4_K"), Settings("m", dtype=d), card(23)).formats for d in dtypes]
    assert len(set(map(str, formats))) == 4  # which is part of the identity of KV in files


def test_what_packed_matrices_take_to_be_multiplied_is_in_the_plan():
    plain, packed = (
        require_fit(BIG, Settings("m", dtype=dtype), card(23)).plan for dtype in ("auto", "int4")
    )
    assert packed.working_bytes - plain.working_bytes == packed_working_bytes(QWEN3_4B)
    assert packed_working_bytes(QWEN3_4B) == 4 * PIECE_NUMBERS + PACKED_PARTS_BYTES
    assert triton_impl.PIECE_NUMBERS == PIECE_NUMBERS
    programs = 256 * triton_impl.PROGRAMS_A_PROCESSOR
    most = max(shape.outputs for shape in triton_impl.SHAPES)
    assert 2 * programs * most * triton_impl.MANY_ROWS * 4 == PACKED_PARTS_BYTES


def test_steps_are_narrow_where_only_those_leave_room_for_a_context_of_use():
    wide = require_fit(BIG, Settings("m"), card(20))
    assert (wide.engine.max_running, wide.engine.step_tokens) == (256, CARD_STEP_TOKENS)
    narrow = require_fit(BIG, Settings("m"), beside(400))
    assert (narrow.engine.max_running, narrow.engine.step_tokens) == (NARROW_RUNNING, STEP_TOKENS)
    assert narrow.engine.context_length >= 2_048
    assert steps_on(QWEN3_4B, processor(8)) == (Steps(64, STEP_TOKENS),)


def test_a_model_of_8_billion_numbers_in_4_bits_has_room_on_a_card_of_8_gb():
    from gpu_check_parts.shapes import MODELS

    model = SizedModel("qwen3-8b", MODELS["Qwen3 8B"], 5 * GIB)
    eight = replace(RTX, card="RTX 4060", total_bytes=8 * GIB)
    room = Room(eight, 8 * GIB, 7 * GIB, 32 * GIB, 16 * GIB)
    with pytest.raises(NoRoom) as refused:
        require_fit(model, Settings("m"), room)
    assert refused.value.hint == "It fits with --dtype int4."
    fit = require_fit(model, Settings("m", dtype="int4"), room)
    assert fit.engine.context_length > 2_048
    wider = require_fit(model, Settings("m", dtype="int4", kv_dtype="int8"), room)
    assert wider.engine.context_length > 4_096


def test_eight_bits_are_refused_on_a_processor_that_cannot(monkeypatch):
    asked = Settings("m", dtype="int8")
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx2": True})
    assert require_fit(BIG, asked, processor(60)).formats.has_eight_bit
    narrow = replace(BIG, config=replace(QWEN3_4B, intermediate_size=9_736))
    with pytest.raises(ConfigError, match=r"--dtype int8 .* this model's shape"):
        require_fit(narrow, asked, processor(60))
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)
    with pytest.raises(ConfigError, match=r"--dtype int8 .* neither AVX2"):
        require_fit(BIG, asked, processor(60))


@pytest.mark.parametrize(
    "asked", [{"dtype": "float16"}, {"kv_dtype": "float16"}, {"kv_dtype": "fp8"}]
)
def test_what_only_a_card_computes_in_is_refused_on_the_processor(asked):
    with pytest.raises(ConfigError, match=r"(float16|fp8) is for CUDA cards"):
        require_fit(BIG, Settings("m", **asked), processor(60))


@pytest.mark.parametrize(
    ("room", "asked", "options"),
    [
        (beside(4_096), {"context_tokens": 40_960}, "--context 25600"),
        (beside(200), {}, "--kv-dtype int8"),
        (beside(80), {}, "--dtype int8"),
        (beside(200, dtype="int8"), {"dtype": "bfloat16"}, "--dtype int8 --kv-dtype int8"),
        (beside(80, dtype="int8"), {}, "--dtype int4"),
        (beside(200, dtype="int4"), {}, "--dtype int4 --kv-dtype int8"),
        (beside(80, dtype="int4"), {}, "--context 512 --dtype int4"),
        (beside(80, dtype="int4"), {"dtype": "int4"}, "--context 512"),
        (card(15), {"dtype": "float32"}, "--dtype auto"),
        (card(20), {"kv_memory_bytes": 16 * GIB}, "no --kv-memory"),
        (card(20, host_gib=1), {"host_memory_bytes": 2 * GIB}, "no --host-memory"),
        (card(4.5, host_gib=40), {"dtype": "float16"}, "--dtype int4"),
        (card(3, host_gib=40), {}, "--device cpu"),
        (card(3, host_gib=40), {"dtype": "float16"}, "--device cpu --dtype auto"),
        (card(3, host_gib=40), {"dtype": "int4"}, "--device cpu --dtype auto"),
        (card(3, host_gib=40), {"kv_dtype": "fp8"}, "--device cpu --kv-dtype int8"),
        (processor(20), {"context_tokens": 40_960}, "--context 35840"),
    ],
)
def test_the_nearest_setting_changes_as_little_as_can_be(monkeypatch, room, asked, options):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})
    asked = Settings("m", **asked)
    with pytest.raises(NoRoom) as refused:
        require_fit(BIG, asked, room)
    assert refused.value.hint == f"It fits with {options}."


@pytest.mark.parametrize("room", [card(2, host_gib=4), processor(4)])
def test_where_nothing_fits_the_weights_are_told(room):
    with pytest.raises(NoRoom) as refused:
        require_fit(BIG, Settings("m"), room)
    told = re.search(r"No setting fits: the weights alone need (.*) GiB", refused.value.hint)
    assert told is not None
    # on a processor 8 bits and what rounding takes, or 16 and the file's own 4-bit numbers
    whole = BIG.weight_bytes(2, "int4" if room.device.is_cuda else "dense") / GIB
    assert float(told[1]) == pytest.approx(whole, abs=0.01 if room.device.is_cuda else 2.5)


def test_what_is_needed_is_told_before_it_is_refused():
    told = []
    with pytest.raises(NoRoom, match=r"on cuda:0 \(RTX 4090\): .* for graphs, .* are free"):
        require_fit(BIG, Settings("m", kv_memory_bytes=16 * GIB), card(20), tell=told.append)
    assert told[0].kv_bytes == pytest.approx(16 * GIB, rel=0.01)


def test_the_plan_counts_as_many_graphs_as_there_may_be():
    assert GRAPH_SIZES == MAX_GRAPHS
    for running in (1, 2, 5, 16, 64, 256, 300):
        sizes = graph_sizes(running)
        # with shared beginnings and without, and a short chunk
        assert num_graphs(running) == len(sizes) + sum(size > 1 for size in sizes) + 1


SIZES = st.integers(0, 48 * GIB)


@st.composite
def models(draw):
    dim, heads = draw(st.sampled_from([16, 64, 128])), draw(st.integers(1, 8))
    config = DecoderConfig(
        "llama",
        vocab_size=draw(st.integers(256, 200_000)),
        hidden_size=16 * draw(st.integers(1, 512)),
        intermediate_size=16 * draw(st.integers(1, 1_024)),
        num_layers=draw(st.integers(1, 80)),
        num_heads=heads * draw(st.integers(1, 8)),
        num_kv_heads=heads,
        head_dim=dim,
        context_length=draw(st.integers(32, 140_000)),
        rms_norm_eps=1e-5,
        rope_theta=1e4,
        is_tied=draw(st.booleans()),
    )
    names = [part.name for fused in tensor_layout(config) for part in fused.parts]
    types = draw(st.sampled_from([(), *(tuple((n, t) for n in names) for t in ("Q4_K", "Q6_K"))]))
    return SizedModel("m", config, draw(SIZES) // 4, types)


@st.composite
def rooms(draw):
    host_free, free = draw(SIZES), draw(SIZES)
    if draw(st.booleans()):
        return Room(RTX, 48 * GIB, free, 64 * GIB, host_free)
    return Room(Device(), 64 * GIB, host_free, 64 * GIB, host_free)


@st.composite
def wishes(draw, context_length, dtypes):
    is_short = context_length < 64
    context = None if is_short else draw(st.none() | st.integers(64, context_length))
    return Settings(
        "m",
        dtype=draw(st.sampled_from(["auto", "float32", "bfloat16", *dtypes])),
        kv_dtype=draw(st.sampled_from(["auto", "float32", "int8"])),
        context_tokens=context,
        kv_memory_bytes=draw(st.none() | st.integers(MIB, 64 * GIB)),
        host_memory_bytes=draw(st.just(0) | st.integers(0, GIB)),
    )


@settings(max_examples=250, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_the_numbers_a_suggestion_passes_the_plan_as_it_is_written(data):
    model, room = data.draw(models()), data.draw(rooms())
    dtypes = ("int8", "int4") if room.device.is_cuda else ()
    asked = data.draw(wishes(model.config.context_length, dtypes))
    try:
        require_fit(model, asked, room)
        return
    except NoRoom as error:
        hint = error.hint
    found = nearest(model, asked, room)
    if found is None:
        assert "No setting fits" in hint
        return
    assert found.options in hint
    followed = follow(asked, found.options)
    assert followed == found.settings
    there = room.of_processor() if followed.device == "cpu" else room
    assert fit_of(model, followed, there).fits
