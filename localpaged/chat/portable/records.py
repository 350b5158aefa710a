"""Reading values out of records that others wrote: each is what it should be, or told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from localpaged.store.text import storable

MAX_NUMBER = 10**15
MAX_NAME_CHARS = 500
MAX_REASON_CHARS = 300
# the year 9998 begins: later ones have no place in every time zone's calendar
MAX_TIME_S = 253_339_228_800

Record = Mapping[str, Any]


class BadRecord(Exception):
    """A record of a file is not what it should be; the text says so for people, and is short."""

    def __init__(self, text: str) -> None:
        # values of the file are repeated in it, and may be of any length
        is_short = len(text) <= MAX_REASON_CHARS
        super().__init__(text if is_short else f"{text[: MAX_REASON_CHARS - 1]}…")


def as_record(value: object, what: str) -> Record:
    """Return a record. Raises BadRecord."""
    if not isinstance(value, Mapping):
        raise BadRecord(f"{what} is not an object")
    return value


def as_list(value: object, what: str) -> list[Any]:
    """Return a list. Raises BadRecord."""
    if not isinstance(value, list):
        raise BadRecord(f"{what} is not a list")
    return value


def text_of(record: Record, name: str, default: str | None = None) -> str:
    """Return a text as it can be stored. Raises BadRecord without a default."""
    value = record.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise BadRecord(f"“{name}” is not a text")
    return storable(value)


def optional_text(record: Record, name: str) -> str | None:
    """Return a text; None when there is none or something else."""
    value = record.get(name)
    return storable(value) if isinstance(value, str) else None


def name_of(record: Record, name: str) -> str:
    """Return a name, such as a model's, as far as a line shows one; empty when there is none."""
    return (optional_text(record, name) or "")[:MAX_NAME_CHARS]


def optional_number(record: Record, name: str) -> float | None:
    """Return a finite number that a database can keep; None when there is none."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # compared before it is converted: a whole number in a file may be of any size
    return float(value) if -MAX_NUMBER < value < MAX_NUMBER else None


def optional_count(record: Record, name: str) -> int | None:
    """Return a whole number from 0 to 2**63 - 1; None when there is none."""
    value = record.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < 2**63 else None


def time_of(record: Record, name: str) -> float | None:
    """Return a time in Unix seconds that a calendar has; None when there is none."""
    value = record.get(name)
    if isinstance(value, str):
        return _time_from_text(value)
    number = optional_number(record, name)
    return number if number is not None and 0 <= number < MAX_TIME_S else None


def text_of_time(time_s: float) -> str:
    """Return a time as people and programs read it."""
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="microseconds")


def _time_from_text(value: str) -> float | None:
    try:
        then = datetime.fromisoformat(value)
        seconds = then.replace(tzinfo=then.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < MAX_TIME_S else None
