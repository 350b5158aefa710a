"""Files in 4 bits on a processor: computed with as they are, told, planned to the byte."""

from dataclasses import replace

import pytest
import torch

from localpaged.config import Settings
from localpaged.engine.eight_bit import can_be_grouped
from localpaged.engine.native import NativeDecoder
from localpaged.engine_factory import load_core
from localpaged.errors import ConfigError
from localpaged.fitting.fit import fit_of
from localpaged.fitting.formats import LARGE_MODEL, choose_formats
from localpaged.fitting.room import room_on
from localpaged.memory_plan import grouped_bytes
from localpaged.models.grouped_layout import grouped_layout
from localpaged.models.open_model import open_model
from localpaged.models.opened_model import count_parameters
from localpaged.models.weights import load_state
from testkit.decoders import make_decoder_core, needs_eight_bit
from testkit.engine_runs import make_request, run
from testkit.gguf_files import save_tiny_gguf
from testkit.tiny_model import save_tiny_model

pytest.importorskip("numba")

from localpaged.engine.eight_bit_matrix import load_matrices
from localpaged.engine.grouped_matrix import Embedding, GroupedMatrix, tie_head
from localpaged.engine.team_decoder import TeamDecoder

pytestmark = needs_eight_bit

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6]


def file_of(tmp_path, quantisation, family="llama", **overrides):
    return open_model(save_tiny_gguf(tmp_path, family, quantisation=quantisation, **overrides))


def loaded(opened, **settings):
    events = []
    asked = Settings(str(opened.source), dtype="int4", context_tokens=256, **settings)
    core, ready = load_core(lambda: opened, asked, events.append)
    return core, ready, {event.stage for event in events}


def logprobs(core):
    asked = make_request("a", PROMPT, max_tokens=8, logprobs=0, prompt_logprobs=0)
    outcome = run(core, [asked])["a"]
    assert outcome.fail is None
    return torch.tensor([t.logprob for t in (*outcome.prompt_logprobs, *outcome.logprobs)])


@pytest.mark.parametrize("quantisation", ["Q4_0", "Q4_1"])
@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "gemma3"])
def test_a_file_says_nearly_what_its_numbers_say(tmp_path, family, quantisation):
    opened = file_of(tmp_path, quantisation, family)
    assert can_be_grouped(opened.config)
    dense = NativeDecoder(opened.config, load_state(opened, dtype=torch.float32))
    expected = logprobs(make_decoder_core(dense))[: len(PROMPT) - 1]
    core, ready, stages = loaded(opened)
    assert (ready.dtype, core.snapshot().dtype) == ("int4", "int4")
    found = logprobs(core)[: len(PROMPT) - 1]
    assert (found - expected).abs().mean() < 0.25, "of logits as wide as 3"
    assert not any("Rounding" in stage for stage in stages)


def test_matrices_that_have_no_4_bits_have_8(tmp_path):
    opened = file_of(tmp_path, "Q8_0")
    state = load_state(opened, dtype=torch.float32, weights="packed")
    assert "layers.0.qkv.int8" in state and "embed.int8" in state
    plain = open_model(save_tiny_model(tmp_path / "plain", "llama"))
    state = load_state(plain, dtype=torch.float32, weights="packed")
    dense = load_state(plain, dtype=torch.float32)
    assert not any(tensor.dim() == 2 for name, tensor in state.items() if "int8" not in name)
    rows = Embedding(state)(torch.tensor([5, 299, 5]))
    wanted = dense["embed.weight"][[5, 299, 5]]
    assert (rows - wanted).norm() < 0.01 * wanted.norm()


@pytest.mark.parametrize("family", ["llama", "llama3-rope", "qwen2", "qwen3", "gemma3"])
def test_what_is_kept_is_compared_with_what_is_made(tmp_path, family):
    opened = file_of(tmp_path, "Q4_1", family)
    for weights in ("packed", "int4"):
        state = load_state(opened, dtype=torch.float32, weights=weights)
        made = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in state.items()}
        assert grouped_layout(opened, torch.float32, weights) == made


def test_which_form_is_taken_follows_from_the_file_and_what_is_asked(tmp_path):
    four, eight = file_of(tmp_path, "Q4_1"), file_of(tmp_path, "Q8_0")

    def told(opened, dtype="auto"):
        settings = Settings("m", dtype=dtype)
        formats = choose_formats(opened.config, settings, room_on(), file_form=opened.file_form)
        return formats.name, formats.has_groups, formats.weights

    assert told(four, "int4") == ("int4", True, "packed")
    for opened, dtype in ((four, "auto"), (four, "int8"), (eight, "auto"), (eight, "int8")):
        assert told(opened, dtype) == ("int8", False, "dense")
    assert told(eight, "int4") == ("int4", True, "int4")
    assert told(four, "bfloat16")[:2] == ("bfloat16", False)


@pytest.mark.parametrize(("vocab_size", "is_large"), [(100_000, True), (4_000, False)])
def test_large_models_keep_their_files_bits(tmp_path, vocab_size, is_large):
    small = file_of(tmp_path, "Q4_1").config
    config = replace(small, vocab_size=vocab_size, hidden_size=4_096)
    assert (count_parameters(config) >= LARGE_MODEL) is is_large
    formats = choose_formats(config, Settings("m"), room_on(), file_form="int4")
    assert formats.name == ("int4" if is_large else "int8")
    formats = choose_formats(config, Settings("m"), room_on(), file_form="int8")
    assert formats.name == "int8"


def test_kv_of_4_bits_is_not_that_of_8(tmp_path):
    opened = file_of(tmp_path, "Q4_1")
    room = room_on()
    told = {
        str(choose_formats(opened.config, Settings("m", dtype=d), room, file_form=form))
        for d, form in (("int4", "int4"), ("int4", "dense"), ("int8", "int4"))
    }
    assert len(told) == 3


def test_widths_that_are_no_whole_groups_have_8_bits_or_are_refused(tmp_path):
    narrow = replace(file_of(tmp_path, "Q4_1").config, intermediate_size=80)
    assert not can_be_grouped(narrow)
    auto = choose_formats(narrow, Settings("m"), room_on(), file_form="int4")
    assert (auto.has_groups, auto.has_eight_bit) == (False, True)
    with pytest.raises(ConfigError, match=r"--dtype int4 .* this model's shape"):
        choose_formats(narrow, Settings("m", dtype="int4"), room_on(), file_form="int4")


@pytest.mark.parametrize("is_tied", [True, False])
def test_what_is_planned_is_what_is_taken(tmp_path, is_tied):
    opened = file_of(tmp_path, "Q4_0", vocab_size=320, tie_word_embeddings=is_tied)
    core, _, _ = loaded(opened)
    planned = grouped_bytes(opened.config, opened.weight_bytes(4, "packed"))
    assert core.snapshot().weight_bytes == planned
    settings = Settings("m", dtype="int4", context_tokens=256)
    assert fit_of(opened, settings, room_on()).plan.weight_bytes > planned
    state = load_state(opened, dtype=torch.float32, weights="packed")
    tie_head(state)
    names = [f"layers.{i}.{name}" for i in range(opened.config.num_layers)
             for name in ("qkv", "o", "gate_up", "down")]  # fmt: skip
    packed = sum(GroupedMatrix.sizes(state, name)[1] for name in [*names, "head"])
    load_matrices(state, [*names, "head"])
    left = {tensor.data_ptr(): tensor.nbytes for tensor in state.values()}
    biases = sum(t.nbytes for name, t in state.items() if name.endswith(".bias"))
    taken = packed + sum(left.values()) - biases
    # outputs are padded to 32; a head that is made of embeddings is planned as if it had 8 bits
    assert taken == pytest.approx(planned, rel=0.1 if is_tied else 0.06)


def test_matrices_leave_the_state_dict_but_for_embeddings(tmp_path):
    opened = file_of(tmp_path, "Q4_0")
    state = load_state(opened, dtype=torch.float32, weights="packed")
    TeamDecoder(opened.config, state, threads=1)
    left = [name for name, tensor in state.items() if tensor.dim() >= 2]
    assert {name.partition(".")[0] for name in left} <= {"embed"}
