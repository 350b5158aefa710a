"""What lies in the models folder and is in no list: told with its reason, never passed over."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from localpaged.models.registry import (
    ENTRY_SUFFIX,
    GGUF_SUFFIX,
    can_be_listed,
    list_entries,
    model_files,
    read_entry,
)
from localpaged.plain_text import visible

_CONFIG = "config.json"  # what every folder with a safetensors model has


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or folder that was meant as a model; both texts are safe to print."""

    reason: str
    advice: str


def left_out() -> list[LeftOut]:
    """Return what is not listed, by name; raises ModelError when the folder cannot be read."""
    listed = {entry.path for entry in list_entries()}
    files = [path for path in model_files() if path not in listed]
    found = [_left_out(path) for path in files if not path.name.startswith(".")]
    return [one for one in found if one is not None]


def _left_out(path: Path) -> LeftOut | None:
    shown = visible(str(path))
    suffix = path.suffix.lower()
    if (path / _CONFIG).is_file():
        pull = f"localpaged models pull {shlex.quote(str(path))}"
        advice = f"`{visible(pull)}` lists it." if pull == visible(pull) else "Rename it."
        return LeftOut(f"{shown} is a folder, and no entry leads to it", advice)
    if suffix not in (GGUF_SUFFIX, ENTRY_SUFFIX) or path.is_dir():
        return None
    if not can_be_listed(path.stem):
        return LeftOut(
            f"{shown} is not listed: its name cannot be a model's",
            "Rename it, to letters, digits, dots, dashes and underscores.",
        )
    if path.suffix != suffix:
        return LeftOut(f"{shown} is not listed", f"Rename it: its name must end with {suffix}.")
    if suffix == ENTRY_SUFFIX and read_entry(path) is None:
        return LeftOut(f"{shown} is damaged", "Remove it, and pull the model again.")
    return None
