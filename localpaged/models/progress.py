"""How long work on models tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Called with (stage, done bytes, total bytes), on the thread that works; total 0 is unknown."""
