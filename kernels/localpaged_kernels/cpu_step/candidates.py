"""The likeliest tokens of a row of logits, in order, without ordering the whole vocabulary."""

from __future__ import annotations

import numpy as np

from localpaged_kernels.cpu_step.compiled import compiled
from localpaged_kernels.cpu_step.llvm_code import LANES
from localpaged_kernels.cpu_step.row_vectors import exponential_sum, make_divide

STRETCH = 32
"""Logits whose largest is looked at first; they lie LANES apart."""

GROUP = STRETCH * LANES
"""Neighbouring logits of LANES stretches."""

_divide = make_divide(STRETCH)


def can_select(count: int, vocabulary: int) -> bool:
    """Whether `likeliest` may be asked for so many."""
    return count <= vocabulary // STRETCH


@compiled
def likeliest(logits, temperatures, values, ids, log_sums):
    """Write the largest logits of each row, divided by its temperature, and their places.

    logits [rows, vocabulary] and temperatures [rows] float32; values float32 and ids int64
    [rows, count], largest first, of equal ones the first place first. `log_sums` float32 [rows]
    are the logarithms of the sums of exponentials of all. No logit is not a number.
    """
    rows, vocabulary = logits.shape
    count = values.shape[1]
    whole, groups = vocabulary // GROUP, -(-vocabulary // GROUP)
    rest = np.full(GROUP, -np.inf, np.float32)
    largest = np.empty(groups * LANES, np.float32)
    scaled = np.empty(groups * GROUP, np.float32)
    found = np.empty(vocabulary, np.int64)
    for r in range(rows):
        to, tops = scaled.ctypes.data, largest.ctypes.data
        if whole > 0:
            _divide(logits[r].ctypes.data, whole, temperatures[r], to, tops)
        if whole < groups:
            rest[: vocabulary - whole * GROUP] = logits[r, whole * GROUP :]
            to, tops = to + 4 * whole * GROUP, tops + 4 * whole * LANES
            _divide(rest.ctypes.data, 1, temperatures[r], to, tops)
        # So many stretches have a number of at least this one: so many numbers are.
        bound = np.partition(largest, len(largest) - count)[len(largest) - count]
        num_found = 0
        for s in range(len(largest)):
            if largest[s] >= bound:
                first = s // LANES * GROUP
                for i in range(first + s % LANES, min(first + GROUP, vocabulary), LANES):
                    if scaled[i] >= bound:
                        found[num_found] = i
                        num_found += 1
        places = np.sort(found[:num_found])
        order = np.argsort(-scaled[places], kind="mergesort")
        for k in range(count):
            ids[r, k] = places[order[k]]
            values[r, k] = scaled[ids[r, k]]
        total = exponential_sum(scaled.ctypes.data, len(scaled) // LANES, values[r, 0])
        log_sums[r] = values[r, 0] + np.float32(np.log(total))
