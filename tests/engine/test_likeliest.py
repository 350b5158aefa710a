"""The compiled way to the likeliest tokens finds what torch finds."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from localpaged.engine.drawing import select_likeliest

pytest.importorskip("numba")
from localpaged.engine.team_decoder import select_compiled


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    rows=st.integers(1, 5),
    vocabulary=st.sampled_from([33, 320, 512, 1_000, 4_097]),
    count=st.sampled_from([1, 7, 31, 128, 2_000]),
    num_masked=st.sampled_from([0, 1, 20, 10_000]),
    steps=st.sampled_from([None, 3]),
)
def test_the_same_tokens_in_the_same_order(seed, rows, vocabulary, count, num_masked, steps):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, vocabulary, generator=generator) * 5
    if steps:  # many are equal
        logits = (logits / steps).round() * steps
    masked = torch.randperm(vocabulary, generator=generator)[: min(num_masked, vocabulary - 1)]
    logits[:, masked] = float("-inf")
    temperatures = torch.rand(rows, 1, generator=generator) + 0.1
    count = min(count, vocabulary)
    values, ids, log_sums = select_compiled(logits, temperatures, count)
    expected, _, expected_sums = select_likeliest(logits, temperatures, count)
    assert torch.equal(values, expected)
    assert torch.equal((logits / temperatures).gather(1, ids), values)
    assert all(len(set(row)) == count for row in ids.tolist()), "no token twice"
    torch.testing.assert_close(log_sums, expected_sums)


def test_of_equal_ones_the_first_comes_first():
    logits = torch.zeros(1, 1_000)
    _, ids, _ = select_compiled(logits, torch.ones(1, 1), 20)
    assert ids.tolist() == [list(range(20))]
