"""Windows, norms and caps of some families in the compiled step: what plain math says."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.eight_bit import can_be_eight_bit, hadamard, to_eight_bit, turn
from testkit.attention_inputs import build
from testkit.decoders import in_groups, needs_eight_bit
from testkit.plain_decoder import PlainDecoder, random_state

pytest.importorskip("numba")

from localpaged.engine import team_views
from localpaged.engine.team_decoder import TeamDecoder
from testkit.team_sequences import Sequences

pytestmark = needs_eight_bit

LENGTH = 420
"""Tokens of a sequence: three pieces of 128 keys and some."""

GEMMA3 = DecoderConfig(
    architecture="gemma3",
    vocab_size=300,
    hidden_size=160,
    intermediate_size=192,
    num_layers=3,
    num_heads=4,
    num_kv_heads=1,
    head_dim=32,
    context_length=512,
    rms_norm_eps=1e-6,
    rope_theta=1_000_000.0,
    has_qk_norm=True,
    is_tied=True,
    sliding_window=150,
    full_layers=(1,),
    local_rope_theta=10_000.0,
    activation="gelu_tanh",
    has_post_norms=True,
    embed_scale=160**0.5,
)
GEMMA2 = replace(
    GEMMA3,
    architecture="gemma2",
    num_kv_heads=2,
    has_qk_norm=False,
    full_layers=(1, 2),
    local_rope_theta=None,
    query_scale=0.11,
    attention_softcap=2.0,
    logit_softcap=0.5,
)
GEMMA = replace(
    GEMMA3,
    architecture="gemma",
    is_tied=False,
    has_qk_norm=False,
    sliding_window=None,
    local_rope_theta=None,
    has_post_norms=False,
)
KINDS = {
    "gemma3": GEMMA3,
    "gemma3-narrow": replace(GEMMA3, sliding_window=20),
    "gemma3-wide": replace(GEMMA3, sliding_window=300),
    "gemma3-windows-alone": replace(GEMMA3, full_layers=()),
    "gemma2": GEMMA2,
    "gemma": GEMMA,
    "unrotated": replace(GEMMA, unrotated_layers=(0, 2)),
    "all-kinds": replace(GEMMA3, num_layers=5, full_layers=(1, 3), unrotated_layers=(2, 3)),
}


@pytest.fixture(scope="module", params=KINDS)
def config(request):
    assert can_be_eight_bit(KINDS[request.param])
    return KINDS[request.param]


@pytest.fixture(params=["eight bits", "four bits"])
def form(request):
    return request.param


@pytest.fixture
def make(form):
    """Return what makes the decoder of a config in one of the forms that a team computes with."""

    def made(config, threads=2):
        state = random_state(config)
        packed = in_groups(state)[0] if form == "four bits" else to_eight_bit(config, state)
        return TeamDecoder(config, packed, threads=threads)

    return made


def ids_of(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(300, (LENGTH,), generator=generator).tolist()


def error(found, wanted):
    return float((found - wanted).norm(dim=1).div(wanted.norm(dim=1)).median())


def test_hidden_states_and_logits_are_those_of_plain_math_but_for_rounding(config, make, form):
    in_few = form == "four bits"
    state = in_groups(random_state(config))[1] if in_few else random_state(config)
    plain, team = PlainDecoder(config, state), make(config)
    wanted = plain.forward(ids_of())
    found = Sequences(team, torch.float32).step((0, ids_of(), 0, LENGTH))[0]
    is_turned = not (in_few or config.has_post_norms)
    assert error(turn(found, hadamard(32)) if is_turned else found, wanted) < 0.04
    assert error(team.logits(found[-50:]), plain.logits(wanted[-50:])) < 0.05


PARTS = {
    "full_layers": (0, 1, 2),
    "unrotated_layers": (0,),
    "local_rope_theta": None,
    "activation": "silu",
    "has_post_norms": False,
    "embed_scale": 1.0,
    "query_scale": None,
    "attention_softcap": None,
}


@pytest.mark.parametrize("part", PARTS)
def test_a_part_of_a_family_that_is_left_out_would_show(part):
    config = GEMMA2 if getattr(GEMMA3, part) == PARTS[part] else GEMMA3
    state, less = random_state(config), replace(config, **{part: PARTS[part]})
    wanted = PlainDecoder(config, state).forward(ids_of())
    assert error(PlainDecoder(less, state).forward(ids_of()), wanted) > 0.08


@pytest.mark.parametrize("kv_dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
def test_a_token_is_the_same_to_the_last_bit_however_it_was_read(config, make, kv_dtype):
    decoder, ids, others = make(config), ids_of(), ids_of(1)
    whole = Sequences(decoder, kv_dtype).step((0, ids, 0, LENGTH))[0]
    pieces = Sequences(decoder, kv_dtype)
    for start, end in pairwise([0, 1, 21, 140, 302, *range(303, 312), LENGTH]):
        assert torch.equal(pieces.step((0, ids, start, end))[0], whole[start:end])
    beside = Sequences(decoder, kv_dtype)
    beside.step((1, others, 0, 330), (2, others, 0, 60), (0, ids, 0, 380))
    for at in range(380, LENGTH):
        rows = (1, others, at - 50, at - 49), (0, ids, at, at + 1), (2, others, at - 320, at - 318)
        assert torch.equal(beside.step(*rows)[1], whole[at : at + 1])


def test_angles_that_are_made_when_they_are_needed_are_the_same(config, make, monkeypatch):
    expected = Sequences(make(config)).step((0, ids_of(), 0, LENGTH))[0]
    monkeypatch.setattr(team_views, "FIRST_POSITIONS", 16)
    sequences = Sequences(make(config))
    for start, end in pairwise([0, 10, 16, 17, 40, 300, LENGTH]):
        assert torch.equal(sequences.step((0, ids_of(), start, end))[0], expected[start:end])


def test_units_of_a_window_that_all_fit_into_are_planned_once():
    views, _ = team_views.views_of(GEMMA3, None)
    for seq_len, plans in ((150, 1), (151, 2)):
        _, _, batch = build([(1, seq_len), (1, 20)])
        tables = torch.cat(batch.tables).numpy()
        planned = team_views.plan_views(views, batch, tables, group=4, threads=2)
        assert len({id(plan) for plan in planned}) == plans


@pytest.mark.parametrize("threads", [1, 3])
def test_it_is_the_same_on_any_number_of_threads(config, make, threads):
    expected = Sequences(make(config, 2)).step((0, ids_of(), 0, LENGTH))[0]
    decoder = make(config, threads)
    found = Sequences(decoder).step((0, ids_of(), 0, LENGTH))[0]
    assert torch.equal(found, expected)
    assert torch.equal(decoder.logits(found[-3:]), make(config, 2).logits(expected[-3:]))
    assert torch.equal(decoder.logits(found[-1:]), decoder.logits(found[-3:])[2:])
