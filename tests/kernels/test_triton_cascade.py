"""Decodes that share a beginning read it once on a GPU, and get what each would get alone."""

from dataclasses import replace

import pytest
import torch

from localpaged_kernels.paged_attention import reference, triton_impl
from localpaged_kernels.paged_attention.beginnings import group_numbers, shared_beginnings
from localpaged_kernels.paged_attention.triton_cascade import DeviceGroups, groups_of
from testkit.triton_inputs import DEVICE, TOLERANCE, build_poisoned

INT8 = torch.int8
SHARED_BLOCKS = 10


def inputs(*, lengths=(200, 161, 33, 190), members=(0, 1, 3), shape=None):
    """Return inputs in which the decodes `members` share their first blocks."""
    rows = [(1, length) for length in lengths] + [(3, 20)]
    shape = {"kv_heads": 1, "group": 4, "block_size": 16, **(shape or {})}
    queries, kv, scales, batch = build_poisoned(rows, **shape)
    tables = [table.clone() for table in batch.tables]
    padded = batch.block_tables.clone()
    for row in members[1:]:
        tables[row][:SHARED_BLOCKS] = tables[members[0]][:SHARED_BLOCKS]
        padded[row, :SHARED_BLOCKS] = tables[members[0]][:SHARED_BLOCKS]
    runs = (None,) * len(tables)
    batch = replace(batch, tables=tuple(tables), block_tables=padded, runs=runs, shared={})
    return queries, kv, scales, batch


def check(queries, kv, scales, batch, *, is_last_merging=False, **numbers):
    numbers = {"scale": 0.2, **numbers}
    sinks = numbers.pop("sinks", None)
    got = triton_impl.paged_attention(
        queries.to(DEVICE),
        kv.to(DEVICE),
        batch,
        kv_scales=None if scales is None else scales.to(DEVICE),
        sinks=None if sinks is None else sinks.to(DEVICE),
        is_last_merging=is_last_merging,
        **numbers,
    )
    want = reference.paged_attention(queries, kv, batch, kv_scales=scales, sinks=sinks, **numbers)
    tolerance = TOLERANCE[queries.dtype]
    torch.testing.assert_close(got.cpu(), want, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("is_last_merging", [False, True], ids=["second launch", "last merges"])
@pytest.mark.parametrize("kv_dtype", [None, INT8], ids=str)
def test_a_group_and_one_that_is_in_none(kv_dtype, is_last_merging):
    queries, kv, scales, batch = inputs(shape={"kv_dtype": kv_dtype})
    groups = groups_of(batch, DEVICE, window=None)
    assert groups.members.tolist() == [0, 1, 3]
    assert groups.skips.tolist() == [160, 160, 0, 160]
    check(queries, kv, scales, batch, is_last_merging=is_last_merging)


def test_what_is_shared_is_read_once_and_by_the_first_of_the_group_alone():
    queries, kv, _, batch = inputs()
    padded = batch.block_tables.clone()
    tables = [table.clone() for table in batch.tables]
    want = reference.paged_attention(queries, kv, batch, scale=0.2)
    groups_of(batch, DEVICE, window=None)
    for row in (1, 3):
        tables[row][:SHARED_BLOCKS] = padded[row, :SHARED_BLOCKS] = 2**30  # nobody may look there
    broken = replace(batch, tables=tuple(tables), block_tables=padded)
    got = triton_impl.paged_attention(queries.to(DEVICE), kv.to(DEVICE), broken, scale=0.2)
    torch.testing.assert_close(got.cpu(), want, atol=2e-2, rtol=2e-2)


def test_two_groups_caps_and_sinks():
    shape = {"dtype": torch.float32, "block_size": 32}
    queries, kv, _, batch = inputs(lengths=(270, 290, 265, 257), members=(0,), shape=shape)
    tables, padded = [table.clone() for table in batch.tables], batch.block_tables.clone()
    for first, second in ((0, 2), (1, 3)):
        tables[second][:8] = padded[second, :8] = tables[first][:8]
    batch = replace(batch, tables=tuple(tables), block_tables=padded, shared={})
    assert groups_of(batch, DEVICE, window=None).starts.tolist() == [0, 2, 4]
    check(queries, kv, None, batch, softcap=4.0, sinks=torch.linspace(-1, 1, 4))


def test_layers_follow_each_other_in_the_same_slots():
    queries, kv, _, batch = inputs()
    for factor in (1.0, 3.0, 0.1):
        check(queries * factor, kv, None, batch)


@pytest.mark.parametrize("members", [(0, 1, 3), (2,)], ids=["one group", "nobody"])
def test_groups_that_are_filled_up_with_empty_ones_mean_the_same(members):
    queries, kv, _, batch = inputs(members=members)
    found = shared_beginnings(batch.block_tables.tolist(), batch.seq_lens, block_size=16)
    assert [beginning.rows for beginning in found] == ([members] if len(members) > 1 else [])
    numbers = group_numbers(found, num_rows=4, block_size=16, is_padded=True)
    filled = [numbers.members, numbers.starts, numbers.lens, numbers.skips]
    assert [len(values) for values in filled] == [4, 3, 2, 4]
    tensors = (torch.tensor(values, dtype=torch.int32, device=DEVICE) for values in filled)
    batch.shared["device groups", DEVICE] = DeviceGroups(*tensors)
    check(queries, kv, None, batch)


def test_a_window_that_cuts_a_beginning_off_is_kept():
    queries, kv, _, batch = inputs()
    assert groups_of(batch, DEVICE, window=60) is None
    assert groups_of(batch, DEVICE, window=200) is not None
    check(queries, kv, None, batch, window=60)
    check(queries, kv, None, batch, window=200)


@pytest.mark.parametrize(("kv_heads", "group"), [(3, 3), (1, 24)])
def test_more_queries_than_one_matrix_has_rows(kv_heads, group):
    shape = {"kv_heads": kv_heads, "group": group}
    members = (0, 1, 2, 3)
    queries, kv, _, batch = inputs(lengths=(165, 170, 161, 180), members=members, shape=shape)
    check(queries, kv, None, batch)
