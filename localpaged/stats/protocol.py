"""What goes over the socket: one JSON object a line. `docs/stats.md` has the form.

The program greets; then each request has one answer, a snapshot or an error.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from localpaged.errors import LocalPagedError, StatsError
from localpaged.stats.schema import SCHEMA_MAJOR, SCHEMA_MINOR, Program, check_version

MAX_REQUEST_BYTES = 4_096
MAX_ANSWER_BYTES = 16 << 20
VERSION = f"{SCHEMA_MAJOR}.{SCHEMA_MINOR}"

CHATS, TREE, MAP = "chats", "tree", "map"
DETAILS = frozenset({CHATS, TREE, MAP})
"""What is told only when it is asked for: each has the engine look at every block."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a program says first."""

    pid: int
    command: str
    version: str
    started_at: float


def greeting(program: Program) -> dict[str, Any]:
    """Return what a program says first, as JSON."""
    return {
        "localpaged": program.version,
        "schema_version": VERSION,
        "pid": program.pid,
        "command": program.command,
        "started_at": program.started_at,
    }


def read_greeting(data: object) -> Greeting:
    """Return what a program said first. Raises StatsError for another version or program."""
    if not isinstance(data, dict):
        raise StatsError("What listens there is not localpaged.")
    check_version(data.get("schema_version"))
    pid, started_at = data.get("pid"), data.get("started_at")
    if not isinstance(pid, int) or not isinstance(started_at, (int, float)):
        raise StatsError("What listens there is not localpaged.")
    return Greeting(
        pid, str(data.get("command", "")), str(data.get("localpaged", "")), float(started_at)
    )


def request(details: frozenset[str]) -> dict[str, Any]:
    """Return the question for a snapshot with `details`, as JSON."""
    return {"schema_version": VERSION, "get": "snapshot", "details": sorted(details)}


def read_request(line: bytes) -> frozenset[str]:
    """Return the details that are asked for; those of a newer program are passed over.

    Raises StatsError for everything that is no request.
    """
    data = parse(line)
    if not isinstance(data, dict) or data.get("get") != "snapshot":
        raise StatsError("That is no request.", hint='Ask {"get": "snapshot"}.')
    check_version(data.get("schema_version", VERSION))
    details = data.get("details", [])
    if not isinstance(details, list):
        raise StatsError("The details have to be a list.")
    return frozenset(item for item in details if isinstance(item, str)) & DETAILS


def failure(error: LocalPagedError) -> dict[str, Any]:
    """Return the answer to a request that cannot be answered, as JSON."""
    return {"schema_version": VERSION, "error": {"message": error.message, "hint": error.hint}}


def raise_failure(data: object) -> None:
    """Raise the StatsError that an answer tells, if it does."""
    told = data.get("error") if isinstance(data, dict) else None
    if isinstance(told, dict):
        raise StatsError(str(told.get("message", "")), hint=str(told.get("hint", "")))


def line_of(data: dict[str, Any]) -> bytes:
    """Return a message as it goes over the wire: ASCII, whatever titles and names have in them."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def parse(line: bytes) -> object:
    """Return what a line says. Raises StatsError for what is no JSON."""
    try:
        parsed: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise StatsError("What was read is no JSON.") from error
    return parsed
