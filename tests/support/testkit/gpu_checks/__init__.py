"""Checks that do what a broken one may do, a module each."""

from __future__ import annotations

from gpu_check_parts.checks import Check

BAR = "a bar | of hostile\nname"


def scripted(
    name: str, *, budget_s: float = 20.0, bars: tuple[str, ...] = (), shards: int = 1
) -> Check:
    """Return the check that the module of this name is."""
    return Check(name, f"Scripted {name}", f"testkit.gpu_checks.{name}", budget_s, bars, shards)
