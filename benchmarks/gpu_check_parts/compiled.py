"""Compiled: the kernels that Triton compiles, or reads from its cache, from a moment on."""

from __future__ import annotations

import os
from typing import Any


class Compiled:
    """One for a process; the newest counts. `names` are kernels and what each was compiled for."""

    def __init__(self) -> None:
        self.names: list[str] = []
        if os.environ.get("TRITON_INTERPRET") != "1":  # interpreted, nothing is compiled
            from triton import knobs

            knobs.runtime.jit_post_compile_hook = self._note

    def _note(self, **told: Any) -> None:
        self.names.append(str(told["repr"]))
