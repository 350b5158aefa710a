"""Gets what is not a number."""

from gpu_check_parts.entries import Case


def run(bench):
    yield Case("operator", "case", float("nan"))
