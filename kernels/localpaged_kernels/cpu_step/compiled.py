"""Functions that numba compiles once for this processor and keeps in files.

numba itself looks only at the file of the function that is called, not at those that it calls. So
what is kept is kept under the digest of all sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import platformdirs
from numba.core.registry import cpu_target

ALL = ("work", "plan_units", "likeliest")
"""The functions that are compiled: a step needs each of them."""


def compiled(function: Callable[..., Any]) -> Any:
    """Return the function, to be compiled when it is first called; it runs without the GIL.

    Where no file can be written it is compiled anew in every process.
    """
    folder = kept_in()
    if not _can_write(folder):
        return numba.njit(nogil=True)(function)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)
    try:
        return numba.njit(nogil=True, cache=True)(function)
    finally:
        numba.config.CACHE_DIR = before


@cache
def kept_in() -> Path:
    """Return the folder for what these sources are compiled to."""
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return platformdirs.user_cache_path("localpaged") / "compiled" / digest.hexdigest()


def is_kept(names: Iterable[str] = ALL) -> bool:
    """Whether functions are kept for this very processor; nothing is made or changed for it."""
    processor = cpu_target.target_context.codegen().magic_tuple()
    marks = [mark.encode() for mark in processor]
    kept = {
        path.name.split(".")[1].partition("-")[0]  # module.function-line.python.nbi
        for path in kept_in().glob("*/*.nbi")
        if _has(path.read_bytes(), marks)
    }
    return kept.issuperset(names)


def forget_compiled() -> None:
    """Delete what is kept, so that it is compiled anew."""
    shutil.rmtree(kept_in(), ignore_errors=True)
    _can_write(kept_in())  # numba looked for the folder when it was told of a function


def _has(index: bytes, marks: Iterable[bytes]) -> bool:
    return all(mark in index for mark in marks)


def _can_write(folder: Path) -> bool:
    try:
        folder.parents[1].mkdir(mode=0o700, parents=True, exist_ok=True)  # the user's own
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
