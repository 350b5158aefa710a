"""The checks in the order they run, with the seconds each is given and the bars it must tell."""

from __future__ import annotations

from dataclasses import dataclass

TOTAL_S = 232.0
"""All of it, the start of processes included: under four minutes."""


@dataclass(frozen=True, slots=True)
class Check:
    """One part of the proof: `module` has `run(bench)`, which yields entries.

    `budget_s` is what it is given of the whole time. It runs in `shards` processes, in fewer where
    processors are few; `bars` are those that it has to tell, or to say why not.
    """

    name: str
    title: str
    module: str
    budget_s: float
    bars: tuple[str, ...] = ()
    shards: int = 1


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a check's process is told.

    `deadline_s` is a time of the monotonic clock, which all processes of a machine share.
    """

    is_rehearsal: bool
    deadline_s: float
    shard: int = 0
    shards: int = 1


HALF_BANDWIDTH = "decode of a 4B model or a larger one, 1 sequence: share of the bandwidth"
BESIDE_VARLEN = "decode kernel beside varlen_attn: share of its speed"
LONG_BANDWIDTH = "decode kernel from 8 sequences of 8,000 tokens on: share of the bandwidth"
HOST_WORK = "host work a step at 32 sequences"
WARM = "first token of a known prefix of 4,000 tokens: times sooner"
MANY = "256 sequences: times the tokens of generate one by one"
REQUESTS = "requests a second: times those of static batches in the same memory"

_PARTS = "gpu_check_parts"
MACHINE = Check("machine", "The machine", f"{_PARTS}.check_machine", 75)
"""Read from a cold disk torch alone may take most of it, and then the last checks are left out."""

CHECKS = (
    Check("kernels", "Kernels and references", f"{_PARTS}.check_kernels", 44, shards=8),
    Check("engine", "Engine and transformers", f"{_PARTS}.check_engine", 28, shards=8),
    Check("times", "Kernels' times", f"{_PARTS}.check_times", 28, (BESIDE_VARLEN, LONG_BANDWIDTH)),
    Check("speed", "Tokens a second", f"{_PARTS}.check_speed", 42, (HALF_BANDWIDTH, MANY)),
    Check("graphs", "Graphs and host time", f"{_PARTS}.check_graphs", 16, (HOST_WORK,)),
    Check("cascade", "Cascade attention", f"{_PARTS}.check_cascade", 14),
    Check("first-token", "First token", f"{_PARTS}.check_first_token", 14, (WARM,)),
    Check("traffic", "Requests a second", f"{_PARTS}.check_traffic", 42, (REQUESTS,)),
)
