"""Team: threads that wait for steps and do them together."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable

import numpy as np

from localpaged_kernels.cpu_step.candidates import likeliest
from localpaged_kernels.cpu_step.compiled import forget_compiled
from localpaged_kernels.cpu_step.huge_pages import Room
from localpaged_kernels.cpu_step.step import END, JOB, VIEWS, work
from localpaged_kernels.cpu_step.team import MOST_THREADS, SYNC_SIZE
from localpaged_kernels.cpu_step.units import plan_units


class Team:
    """The thread that calls `run`, and others that end with this object.

    `jobs` are the records to write down before, `job` the first of them. They are never changed
    while a job runs, and one thread at a time has the team.
    """

    def __init__(self, threads: int) -> None:
        """Take up to MOST_THREADS threads, the caller's included."""
        self.threads = max(1, min(threads, MOST_THREADS))
        self.jobs = np.zeros(VIEWS, JOB)
        self.job = self.jobs[0]
        self._sync = Room(8 * SYNC_SIZE + 64).take(SYNC_SIZE, np.int64)
        self._pipes = np.zeros((self.threads, 2), np.int32)
        shared = (self.jobs, self._sync, self._pipes, self.threads)
        for thread in range(1, self.threads):
            self._pipes[thread] = os.pipe()
        for thread in range(1, self.threads):
            threading.Thread(
                target=_belong, args=(*shared, thread), name=f"team-{thread}", daemon=True
            ).start()
        weakref.finalize(self, _end, *shared).atexit = False

    def run(self) -> None:
        """Do the job that is written down; returns when it is done."""
        work(self.jobs, self._sync, self._pipes, self.threads, 0)


def prepare(call: Callable[[], None] | None = None) -> None:
    """Compile what a step takes, unless it was before: some 15 seconds, once.

    `call` calls what is to be compiled; all of a step when none is given.
    """
    call = call or _call_all
    try:
        call()
    except Exception:  # whatever a damaged file makes numba raise: a second time it is our fault
        forget_compiled()
        call()


def _call_all() -> None:
    alone = Team(1)
    alone.job["kind"] = END
    alone.run()
    one, zero = np.ones(1, np.int64), np.zeros(1, np.int64)
    plan_units(one, one, zero, zero, 1, 0, 1)
    call_likeliest()


def call_likeliest() -> None:
    """Call what finds the likeliest tokens."""
    numbers, ids = np.ones((1, 32), np.float32), np.zeros((1, 1), np.int64)
    likeliest(numbers, np.ones(1, np.float32), np.zeros((1, 1), np.float32), ids, numbers[0])


def _belong(
    jobs: np.ndarray, sync: np.ndarray, pipes: np.ndarray, threads: int, thread: int
) -> None:
    work(jobs, sync, pipes, threads, thread)
    for end in pipes[thread]:
        os.close(end)


def _end(jobs: np.ndarray, sync: np.ndarray, pipes: np.ndarray, threads: int) -> None:
    jobs[0]["kind"] = END
    work(jobs, sync, pipes, threads, 0)
