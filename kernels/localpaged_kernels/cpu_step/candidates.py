"""The likeliest tokens of a row of logits, in order, without ordering the whole vocabulary."""

from __future__ import annotations

import numpy as np
from numba import njit

from localpaged_kernels.cpu_step.compiled import compiled
from localpaged_kernels.cpu_step.llvm_code import LANES
from localpaged_kernels.cpu_step.row_vectors import exponentials

STRETCH = 32
"""Neighbouring logits whose largest is looked at first."""


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
    stretches = (vocabulary - 1) // STRETCH + 1
    largest = np.empty(stretches, np.float32)
    scaled = np.empty(-(-vocabulary // LANES) * LANES, np.float32)
    found = np.empty(vocabulary, np.int64)
    state = np.empty(2, np.float32)
    for r in range(rows):
        scaled[vocabulary:] = -np.inf
        for i in range(vocabulary):
            scaled[i] = logits[r, i] / temperatures[r]
        for s in range(stretches):
            largest[s] = _largest(scaled[s * STRETCH : min((s + 1) * STRETCH, vocabulary)])
        # So many stretches have a number of at least this one: so many numbers are.
        bound = np.partition(largest, stretches - count)[stretches - count]
        num_found = 0
        for s in range(stretches):
            if largest[s] >= bound:
                for i in range(s * STRETCH, min((s + 1) * STRETCH, vocabulary)):
                    if scaled[i] >= bound:
                        found[num_found] = i
                        num_found += 1
        order = np.argsort(-scaled[found[:num_found]], kind="mergesort")
        for k in range(count):
            ids[r, k] = found[order[k]]
            values[r, k] = scaled[ids[r, k]]
        exponentials(scaled.ctypes.data, len(scaled) // LANES, state.ctypes.data)
        log_sums[r] = state[0] + np.float32(np.log(state[1]))


@njit(nogil=True, fastmath={"nnan", "nsz"})
def _largest(numbers):
    most = np.float32(-np.inf)
    for number in numbers:
        most = max(most, number)
    return most
