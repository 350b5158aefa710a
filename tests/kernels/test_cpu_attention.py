"""A processor's attention through block tables agrees with the reference, piece by piece."""

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from localpaged_kernels.kv_cache.reference import quantise
from localpaged_kernels.paged_attention import reference
from testkit.attention_inputs import ROWS, build
from testkit.decoders import needs_eight_bit

pytest.importorskip("numba")

from testkit.team_attention import attend_by_team

pytestmark = needs_eight_bit

LONG = [(1, 127), (1, 128), (1, 129), (1, 300), (3, 131)]
CHUNKS = [(1, 40), (140, 140), (60, 200), (1, 257)]


def check(queries, kv, batch, *, scales=None, atol=1e-5, **kinds):
    scale = queries.shape[2] ** -0.5
    found = attend_by_team(queries, kv, batch, scale=scale, kv_scales=scales, **kinds)
    wanted = reference.paged_attention(queries, kv, batch, scale=scale, kv_scales=scales, **kinds)
    torch.testing.assert_close(found, wanted, atol=atol, rtol=1e-5)


@pytest.mark.parametrize("window", [None, 1, 20, 150])
@pytest.mark.parametrize("rows", [*ROWS.values(), LONG, CHUNKS], ids=[*ROWS, "long", "chunks"])
def test_all_kinds_of_rows(rows, window):
    check(*build(rows), window=window)


@pytest.mark.parametrize("window", [None, 20])
@pytest.mark.parametrize("softcap", [0.5, 3.0, 50.0])
@pytest.mark.parametrize("rows", [LONG, CHUNKS], ids=["long", "chunks"])
def test_scores_are_capped_before_their_softmax(rows, softcap, window):
    queries, kv, batch = build(rows)
    check(4 * queries, kv, batch, window=window, softcap=softcap)


@pytest.mark.parametrize("dim", [16, 64, 80, 96, 112, 128, 256])
@pytest.mark.parametrize(("kv_heads", "group"), [(1, 1), (3, 3), (2, 7), (1, 40), (4, 1)])
def test_every_head_shape(dim, kv_heads, group):
    check(*build([(1, 150), (5, 21)], dim=dim, kv_heads=kv_heads, group=group))


@pytest.mark.parametrize("rows", [LONG, CHUNKS], ids=["long", "chunks"])
def test_a_cache_of_16_bits(rows):
    queries, kv, batch = build(rows)
    check(queries, kv.bfloat16(), batch)


@pytest.mark.parametrize("rows", [LONG, CHUNKS], ids=["long", "chunks"])
def test_a_cache_of_8_bits(rows):
    queries, kv, batch = build(rows)
    numbers, scales = quantise(kv)
    check(queries, numbers, batch, scales=scales)


def shared(count, own_lens, *, seed=0):
    """Decodes whose first `count` blocks are the same, and what is behind them their own."""
    lens = [count * 16 + own for own in own_lens]
    queries, kv, batch = build([(1, count * 16), *((1, own) for own in own_lens)], seed=seed)
    beginning, *rest = batch.tables
    tables = tuple(torch.cat((beginning, table)) for table in rest)
    batch = replace(
        batch,
        tables=tables,
        runs=(None,) * len(rest),
        query_lens=(1,) * len(rest),
        seq_lens=tuple(lens),
        num_decodes=len(rest),
    )
    return queries[1:], kv, batch


@pytest.mark.parametrize("window", [None, 100, 140, 200])
@pytest.mark.parametrize("count", [7, 8, 9, 17])
def test_who_shares_a_beginning_gets_what_is_its_own(count, window):
    check(*shared(count, [1, 16, 20, 33]), window=window)


def test_more_may_share_than_are_read_for_at_once():
    check(*shared(8, [1] * 40))


def test_the_same_bits_whoever_shares_and_whoever_is_beside():
    queries, kv, batch = shared(9, [5, 16, 40])
    together = attend_by_team(queries, kv, batch, scale=0.2)
    for row in range(3):
        alone = replace(
            batch,
            tables=batch.tables[row : row + 1],
            runs=(None,),
            query_lens=(1,),
            seq_lens=batch.seq_lens[row : row + 1],
            num_decodes=1,
        )
        own = queries[row : row + 1]
        assert torch.equal(attend_by_team(own, kv, alone, scale=0.2)[0], together[row])


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    window=st.sampled_from([None, 3, 64, 130]),
    kv_heads=st.sampled_from([1, 2, 3]),
    group=st.sampled_from([1, 3, 4, 5]),
)
def test_any_batch(seed, window, kv_heads, group):
    numbers = random.Random(seed)
    rows, left = [], 900
    for _ in range(numbers.randint(1, 5)):
        seq_len = numbers.randint(1, min(left, numbers.choice([20, 140, 400])))
        rows.append((numbers.choice([1, 1, numbers.randint(1, seq_len)]), seq_len))
        left -= -(-seq_len // 16) * 16
        if left < 16:
            break
    rows.sort(key=lambda row: row[0] != 1)
    check(*build(rows, kv_heads=kv_heads, group=group, seed=seed), window=window)


def test_what_is_not_a_number_stays_visible_in_its_own_row():
    queries, kv, batch = build([(1, 140), (1, 30), (4, 20)])
    kv[batch.tables[0][3], 2, 0, 0, 5] = float("nan")
    found = attend_by_team(queries, kv, batch, scale=0.2)
    assert found[0, :2].isnan().any() and found[1:].isfinite().all()
    kv[batch.tables[1][0], 2, 1, 1, 5] = float("inf")
    found = attend_by_team(queries, kv, batch, scale=0.2)
    assert not found[1].isfinite().all() and found[2:].isfinite().all()


def test_blocks_of_others_are_not_read():
    queries, kv, batch = build([(1, 140), (6, 30)])
    used = torch.cat(batch.tables)
    others = torch.ones(len(kv), dtype=torch.bool)
    others[used] = False
    kv[others] = float("nan")
    assert attend_by_team(queries, kv, batch, scale=0.2).isfinite().all()
