"""Misses a bar."""

from gpu_check_parts.entries import Bar
from testkit.gpu_checks import BAR


def run(bench):
    yield Bar(BAR, 0.7, 0.8, "share", is_met=False)
