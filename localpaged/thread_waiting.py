"""How torch's threads wait for each other between two operators; to be told before torch loads."""

from __future__ import annotations

import os

SPINS = "10000"
"""Rounds a thread of libgomp looks for work before it sleeps; 300,000 when nobody says so."""


def wait_briefly() -> None:
    """Let idle threads sleep soon, unless the environment says how they wait.

    A step is hundreds of short operators. Threads that spin between them take the processor from
    whatever they wait for as soon as another program, or the screen, wants it, too: on two cores
    with other work, decoding then falls to a tenth.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)
