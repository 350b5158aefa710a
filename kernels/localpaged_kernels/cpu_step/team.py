"""A team of threads that do one job together, without Python: all of them call the same function.

`sync` is an int64 array of SYNC_SIZE zeros that a team has for itself, a cache line for each number
that threads write.
"""

from __future__ import annotations

import numpy as np
from numba import njit, types

from localpaged_kernels.cpu_step.memory import (
    atomic_add,
    atomic_load,
    atomic_store,
    atomic_swap,
    rest_a_moment,
)

LINE = 8
"""int64 numbers in a cache line."""

MOST_THREADS = 64
ARRIVED, PASSED, CLAIMED, JOBS, ASLEEP = (LINE * n for n in range(5))
SYNC_SIZE = ASLEEP + LINE * MOST_THREADS

ROUNDS_BEFORE_YIELDING = 500
"""Looks at a barrier before another program is let in: the thread waited for may need this core."""

ROUNDS_BEFORE_SLEEP = 2_000
"""Looks for the next job before a thread sleeps until it is woken."""

_yield_core = types.ExternalFunction("sched_yield", types.int32())
_read = types.ExternalFunction("read", types.intp(types.int32, types.intp, types.intp))
_write = types.ExternalFunction("write", types.intp(types.int32, types.intp, types.intp))


@njit(nogil=True)
def meet(sync, threads):
    """Wait until all threads are here. What they wrote before is seen by all behind."""
    address = sync.ctypes.data
    if threads == 1:
        atomic_store(address + 8 * CLAIMED, 0)
        return
    passed = atomic_load(address + 8 * PASSED)
    if atomic_add(address + 8 * ARRIVED, 1) == threads - 1:
        atomic_store(address + 8 * ARRIVED, 0)
        atomic_store(address + 8 * CLAIMED, 0)
        atomic_store(address + 8 * PASSED, passed + 1)
        return
    rounds = 0
    while atomic_load(address + 8 * PASSED) == passed:
        rounds += 1
        if rounds < ROUNDS_BEFORE_YIELDING:
            rest_a_moment()
        else:
            _yield_core()


@njit(nogil=True)
def claim(sync, count):
    """Return the first of `count` pieces of work that are this thread's, since all met last."""
    return atomic_add(sync.ctypes.data + 8 * CLAIMED, count)


@njit(nogil=True)
def call_team(sync, pipes, threads):
    """Have the other threads begin with the job that is written down."""
    address = sync.ctypes.data
    atomic_add(address + 8 * JOBS, 1)
    byte = np.zeros(1, np.int8)
    for thread in range(1, threads):
        if atomic_swap(address + 8 * (ASLEEP + LINE * thread), 0) == 1:
            while _write(pipes[thread, 1], byte.ctypes.data, 1) != 1:
                pass


@njit(nogil=True)
def wait_for_job(sync, pipe, thread, done):
    """Return the number of the next job behind job `done`, having slept until it came."""
    address = sync.ctypes.data
    own = address + 8 * (ASLEEP + LINE * thread)
    byte = np.zeros(1, np.int8)
    for _ in range(ROUNDS_BEFORE_SLEEP):
        if atomic_load(address + 8 * JOBS) != done:
            return done + 1
        rest_a_moment()
    atomic_store(own, 1)
    # Whoever takes the mark back writes a byte, or will: it has to be read.
    if atomic_load(address + 8 * JOBS) == done or atomic_swap(own, 0) == 0:
        while _read(pipe, byte.ctypes.data, 1) != 1:
            pass
    return done + 1
