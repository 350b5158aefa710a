"""Tells of everything there is."""

from gpu_check_parts.entries import Case, Figure, Skip
from testkit.gpu_checks import BAR


def run(bench):
    yield Figure("speed", "tok/s", 1234.5, 1200.0, 1250.0, 7, {"generate": 100.0}, {"GB/s": 9.0})
    yield Case("operator", "case", 0.5)
    yield Skip("something", "there is none")
    yield bench.at_least(BAR, 0.9, 0.8, "share")
