"""What is told of memory when a model is loaded beside another localpaged, which has its own."""

from __future__ import annotations

import os
from contextlib import suppress

from localpaged.engine.events import LoadEvent
from localpaged.memory_plan import MEMORY_NEEDED, gib

SHORT_BYTES = 1 << 30
"""Where less stays free than this, the system is about to swap."""


def shortage(event: LoadEvent) -> str:
    """Return what to tell when memory gets short and another engine runs here; else nothing."""
    needed_bytes, free_bytes = event.done, event.total
    if event.stage != MEMORY_NEEDED or needed_bytes + SHORT_BYTES <= free_bytes:
        return ""
    others = _others()
    if not others:
        return ""
    who = f"localpaged {' and '.join(others)} {'has' if len(others) == 1 else 'have'}"
    return (
        f"Memory is short: {who} a model in memory, and a second one takes {gib(needed_bytes)} of "
        f"{gib(free_bytes)} that are free. One that serves (`chat --serve`) can be asked instead: "
        "`ask --model http://…`."
    )


def _others() -> list[str]:
    """Return the process numbers of other programs with an engine, those of their names alone."""
    from localpaged.stats import sockets

    pids: list[str] = []
    with suppress(OSError):  # a folder that cannot be read tells of nobody
        pids = [path.stem.partition("-")[0] for path in sockets.living()]
    return [pid for pid in dict.fromkeys(pids) if pid != str(os.getpid())]
