"""Python's collector of cycles rests while modules are imported: what they make stays anyway.

It walks through all that is there again and again meanwhile: a seventh of the time torch's import
takes, a sixth of a start that only prints help.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collecting_none() -> Iterator[None]:
    """Collect no cycles in the whole process while the block runs."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
