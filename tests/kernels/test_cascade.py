"""Decodes that share a beginning read it once, and get what each would get alone."""

from dataclasses import replace

import pytest
import torch

from localpaged_kernels import AttentionBatch, paged_attention
from localpaged_kernels.paged_attention import reference
from localpaged_kernels.paged_attention.cascade import cascade_of
from testkit.attention_inputs import build, run_of

BLOCK = 16
TOLERANCE = {torch.float32: 2e-5, torch.bfloat16: 2e-2}


def share(batch: AttentionBatch, rows: dict[int, int], donor: int) -> AttentionBatch:
    """Let rows begin with so many blocks of the donor's."""
    tables = [table.clone() for table in batch.tables]
    padded = batch.block_tables.clone()
    for row, count in rows.items():
        tables[row][:count] = tables[donor][:count]
        padded[row, :count] = tables[donor][:count]
    runs = tuple(map(run_of, tables))
    return replace(batch, tables=tuple(tables), block_tables=padded, runs=runs, shared={})


CASES = {
    # lengths of the decodes, who shares how many blocks with whom, sizes of the groups, rest
    "all": ([200, 177, 161, 208], [({1: 10, 2: 10, 3: 10}, 0)], [(4, 10)], []),
    "two groups and one alone": (
        [180, 180, 33, 180, 190],
        [({1: 11}, 0), ({4: 11}, 3)],
        [],
        None,
    ),
    "a long group and one alone": (
        [150, 200, 33, 170],
        [({1: 9, 3: 9}, 0)],
        [(3, 9)],
        [2],
    ),
    "all that is shared is whole": ([257, 257], [({1: 16}, 0)], [(2, 16)], []),
    "the last token stays one's own": ([272, 272], [({1: 17}, 0)], [(2, 16)], []),
}


def inputs(name, *, dtype=torch.float32, is_shuffled=True):
    lengths, sharing, groups, rest = CASES[name]
    rows = [(1, length) for length in lengths] + [(5, 40)]
    queries, kv, batch = build(rows, dtype=dtype, is_shuffled=is_shuffled)
    for others, donor in sharing:
        batch = share(batch, others, donor)
    return queries, kv, batch, groups, rest


@pytest.mark.parametrize("name", CASES)
def test_who_shares_enough_is_found(name):
    _, _, batch, groups, rest = inputs(name)
    found = cascade_of(batch)
    if rest is None:
        assert found is None, "176 tokens twice are not worth the trouble"
        return
    assert [(len(group.rows), len(group.shared)) for group in found.groups] == groups
    assert found.rest.tolist() == rest
    assert cascade_of(batch) is found, "once a step"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_shuffled", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_cascade_attention(name, is_shuffled, dtype):
    queries, kv, batch, _, _ = inputs(name, dtype=dtype, is_shuffled=is_shuffled)
    got = paged_attention(queries, kv, batch, scale=0.3)
    want = reference.paged_attention(queries, kv, batch, scale=0.3)
    atol = TOLERANCE[dtype]
    torch.testing.assert_close(got, want, atol=atol, rtol=atol)


@pytest.mark.parametrize("window", [None, 60, 170, 500])
def test_a_window_that_cuts_a_beginning_off_is_kept(window):
    queries, kv, batch, _, _ = inputs("all")
    got = paged_attention(queries, kv, batch, scale=0.3, window=window)
    want = reference.paged_attention(queries, kv, batch, scale=0.3, window=window)
    torch.testing.assert_close(got, want, atol=2e-5, rtol=2e-5)


def test_int8_blocks_are_shared_too():
    queries, kv, batch, _, _ = inputs("all")
    numbers = (kv.clamp(-4, 4) * 30).round().char()
    scales = torch.rand(kv.shape[:-1]) / 30
    got = paged_attention(queries, numbers, batch, scale=0.3, kv_scales=scales)
    want = reference.paged_attention(queries, numbers, batch, scale=0.3, kv_scales=scales)
    torch.testing.assert_close(got, want, atol=5e-5, rtol=5e-5)


def test_weights_of_very_different_size_are_put_together():
    queries, kv, batch, _, _ = inputs("all")
    for factor in (1e-3, 50.0):
        got = paged_attention(queries * factor, kv, batch, scale=1.0)
        want = reference.paged_attention(queries * factor, kv, batch, scale=1.0)
        assert got.isfinite().all()
        torch.testing.assert_close(got, want, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(("kv_heads", "group"), [(1, 1), (3, 3), (1, 8), (4, 1)])
def test_every_head_shape(kv_heads, group):
    queries, kv, batch = build([(1, 300), (1, 290), (1, 280)], kv_heads=kv_heads, group=group)
    batch = share(batch, {1: 17, 2: 17}, 0)
    assert cascade_of(batch) is not None
    got = paged_attention(queries, kv, batch, scale=0.3)
    want = reference.paged_attention(queries, kv, batch, scale=0.3)
    torch.testing.assert_close(got, want, atol=2e-5, rtol=2e-5)
