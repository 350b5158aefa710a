"""Functions that numba compiles once for this processor and keeps in files.

numba itself looks only at the file of the function that is called, not at those that it calls. So
what is kept is kept under the digest of all sources.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import platformdirs


def compiled(function: Callable[..., Any]) -> Any:
    """Return the function, to be compiled when it is first called; it runs without the GIL.

    Where no file can be written it is compiled anew in every process.
    """
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_folder())
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # numba's word for a folder that cannot be written
        return numba.njit(nogil=True)(function)
    finally:
        numba.config.CACHE_DIR = before


def _folder() -> Path:
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for source in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(source.read_bytes())
    return platformdirs.user_cache_path("localpaged") / "compiled" / digest.hexdigest()
