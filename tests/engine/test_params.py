"""Sampling parameters are checked at the border, naming the field."""

import math

import pytest

from localpaged.engine.params import SamplingParams
from localpaged.errors import BadParameter


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", "hot"),
        ("temperature", True),
        ("top_p", 0),
        ("top_p", 2),
        ("min_p", -0.1),
        ("min_p", 1.5),
        ("top_k", -1),
        ("top_k", 1.5),
        ("seed", -1),
        ("seed", 2**70),
        ("max_tokens", 0),
        ("max_tokens", -5),
        ("max_tokens", 1.5),
        ("max_tokens", True),
        ("max_tokens", 10**30),
    ],
)
def test_a_value_out_of_range_is_named(name, value):
    with pytest.raises(BadParameter, match=name):
        SamplingParams(**{name: value})


@pytest.mark.parametrize("stop", [("",), ("x" * 1_001,), tuple("abcdefghijklmnopq")])
def test_unusable_stop_strings_are_refused(stop):
    with pytest.raises(BadParameter, match="stop string"):
        SamplingParams(stop=stop)


def test_the_borders_are_allowed():
    SamplingParams(temperature=0, top_p=1, min_p=1, top_k=0, seed=2**63 - 1, max_tokens=1)
