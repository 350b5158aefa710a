"""Functions that numba compiles once for this processor and keeps in files.

numba itself looks only at the file of the function that is called, not at those that it calls. So
what is kept is kept under the digest of all sources.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
import platformdirs


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


def forget_compiled() -> None:
    """Delete what is kept, so that it is compiled anew."""
    shutil.rmtree(kept_in(), ignore_errors=True)
    _can_write(kept_in())  # numba looked for the folder when it was told of a function


def _can_write(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
