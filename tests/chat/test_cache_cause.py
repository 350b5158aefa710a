"""A loss is told from rounding: the engine keeps whole blocks, and always computes one token."""

from __future__ import annotations

import pytest

from localpaged.chat.cache_cause import Computed, explain, num_common
from localpaged.chat.cache_report import CacheCause
from testkit.fake_model import FakeChatModel


@pytest.mark.parametrize(
    ("num_computed", "prompt_tokens", "matched_tokens", "cause"),
    [
        (47, 100, 47, CacheCause.NOTHING),
        (47, 100, 32, CacheCause.NOTHING),  # the last block was never full
        (47, 100, 31, CacheCause.NOTHING),
        (47, 100, 17, CacheCause.NOTHING),  # less than a block is missing
        (47, 100, 16, CacheCause.EVICTED),
        (47, 100, 0, CacheCause.EVICTED),
        (48, 48, 32, CacheCause.NOTHING),  # one token is left to compute, and its block with it
        (48, 48, 31, CacheCause.EVICTED),
        (15, 100, 0, CacheCause.NOTHING),
        (16, 100, 0, CacheCause.EVICTED),
        (64, 30, 14, CacheCause.NOTHING),  # the prompt is shorter than what was computed
        (64, 30, 13, CacheCause.EVICTED),
    ],
)
def test_a_loss_begins_with_a_whole_block(
    num_computed: int, prompt_tokens: int, matched_tokens: int, cause: CacheCause
):
    ids = tuple(range(1, 101))
    before = Computed(ids, num_computed, None, (), "model", is_this_run=True)

    report = explain(
        ids[:prompt_tokens],
        (),
        matched_tokens=matched_tokens,
        before=before,
        namespace="model",
        model=FakeChatModel(),
    )

    assert report.cause is cause
    assert report.agreed_tokens == min(num_computed, prompt_tokens)


@pytest.mark.parametrize(
    ("left", "right", "count"),
    [((), (), 0), ((1,), (), 0), ((1, 2), (1, 3), 1), ((1, 2), (1, 2, 3), 2), ("abc", "abd", 2)],
)
def test_common_beginnings_are_counted(left: tuple[int, ...], right: tuple[int, ...], count: int):
    assert num_common(left, right) == num_common(right, left) == count
