"""Raises after a first comparison."""

from gpu_check_parts.entries import Case


def run(bench):
    yield Case("operator", "before", 0.1)
    raise ValueError("it broke\nin two lines")
