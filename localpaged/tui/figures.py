"""Numbers as people read them: tokens, bytes, rates, seconds."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def grouped(number: int) -> str:
    """2048 -> 2,048."""
    return f"{number:,}"


def compact(number: int) -> str:
    """3121 -> 3.1k, 32768 -> 33k."""
    if number < 1_000:
        return str(number)
    for unit, size in (("M", 1_000_000), ("k", 1_000)):
        if number >= size:
            value = number / size
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return str(number)


def byte_size(number: int) -> str:
    """98362432 -> 93.8 MiB."""
    value = float(number)
    for unit in _UNITS:
        if value < 1_024 or unit == _UNITS[-1]:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1_024
    return f"{number} B"


def rate(tokens_per_s: float) -> str:
    """57.21 -> 57 tok/s, 4.31 -> 4.3 tok/s."""
    return f"{tokens_per_s:.0f} tok/s" if tokens_per_s >= 9.95 else f"{tokens_per_s:.1f} tok/s"


def seconds(value: float) -> str:
    """0.114 -> 0.11 s, 12.3 -> 12 s."""
    return f"{value:.2f} s" if value < 9.995 else f"{value:.0f} s"


def percent(part: float, whole: float) -> str:
    """31 of 256 -> 12 %."""
    return f"{100 * part / whole:.0f} %" if whole else "0 %"
