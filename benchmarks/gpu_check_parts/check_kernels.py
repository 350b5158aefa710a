"""Check 1: every kernel against its reference, in all dtypes, on memory that is not a number."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from gpu_check_parts.bench import Bench
from gpu_check_parts.entries import Case, Entry, Fault, Skip

CASE_S = 6.0
"""What one comparison may take, most of it to compile."""

FAR_BYTES = 5 * 2**30


def run(bench: Bench) -> Iterator[Entry]:
    """Yield a comparison after the other; one that breaks is told and the next one tried."""
    import torch

    from gpu_check_parts import agree_attention, agree_draws, agree_operators, agree_packed

    everything = {
        (operator, name): compare
        for part in (agree_attention, agree_operators, agree_packed, agree_draws)
        for operator, cases in part.cases(is_tiny=bench.is_rehearsal).items()
        for name, compare in cases.items()
    }
    needs = {key: FAR_BYTES for key in everything if key[1].startswith(agree_attention.BEYOND_NAME)}
    if not bench.is_rehearsal:
        for name, compare in agree_operators.far_cases().items():
            everything["block copies", name] = compare
            needs["block copies", name] = agree_operators.FAR_COPY_BYTES
    for (operator, name), compare in bench.mine(everything):
        what = f"{operator}, {name}"
        lack = bench.lacks_time(what, CASE_S) or bench.lacks_memory(
            what, needs.get((operator, name), 0)
        )
        if lack is not None:
            yield lack
            continue
        try:
            with _loud_memory():
                difference = compare(bench.device)
            yield Case(operator, name, difference)
        except torch.OutOfMemoryError:
            yield Skip(what, "the card's memory did not suffice beside the other processes")
        except Exception as error:  # whatever one comparison raises, the others are still made
            yield Fault(what, f"{type(error).__name__}: {str(error)[:300]}")
        if needs:
            _give_back(bench)


@contextmanager
def _loud_memory() -> Iterator[None]:
    """Have torch fill new memory with what is not a number.

    What a kernel forgets to write would else be what lay there before: often the very result that
    the reference has just given back.
    """
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of operators that have no such form
            yield
    finally:
        torch.use_deterministic_algorithms(False)


def _give_back(bench: Bench) -> None:
    """Give the memory of one case back to the card: other processes run theirs beside it."""
    import torch

    if not bench.is_rehearsal:
        torch.cuda.empty_cache()
