"""Which models are here: files in `models_dir()` and entries that point elsewhere.

A model that was taken out of its package is a file `NAME.gguf` here. Everything else is an entry
`NAME.json` with the path of a GGUF file or safetensors folder, which stays where it is: gigabytes
are never copied, and removing the model removes the entry alone.
"""

from __future__ import annotations

import difflib
import json
import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from localpaged import paths
from localpaged.atomic_file import write_atomically
from localpaged.errors import ConfigError, ModelError, ModelNotFound
from localpaged.models.catalogue import DEFAULT_MODEL, PACKAGED_MODELS
from localpaged.models.disk_room import not_written
from localpaged.plain_text import visible

GGUF_SUFFIX, ENTRY_SUFFIX = ".gguf", ".json"
MAX_ENTRY_BYTES = 2**16
MAX_NAME_CHARS = 128
SHOWN_CHARS = 80
MIN_LIKENESS = 0.7  # below that a guess is more puzzling than helpful

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model by name. An owned file lies in `models_dir()` and is deleted with the model.

    `origin` says where it came from: a package, a Hugging Face id or a path.
    """

    name: str
    path: Path
    is_owned: bool
    origin: str


def list_entries() -> list[ModelEntry]:
    """Return every model that is here, by name; a damaged entry is logged and left out.

    Raises ModelError when the folder cannot be read.
    """
    entries = {}
    files = [path for path in model_files() if can_be_listed(path.stem)]
    for path in files:
        if path.suffix == ENTRY_SUFFIX and (entry := read_entry(path)) is not None:
            entries[entry.name] = entry
    for path in files:
        if path.suffix == GGUF_SUFFIX:
            packaged = PACKAGED_MODELS.get(path.stem)
            origin = packaged.requirement if packaged else str(path)
            entries[path.stem] = ModelEntry(path.stem, path, is_owned=True, origin=origin)
    return [entries[name] for name in sorted(entries)]


def can_be_listed(name: str) -> bool:
    """Whether a file of that name stands in the list: people give files the names they like.

    What cannot be seen, looks like an option or means a model of an endpoint is no name.
    """
    is_seen = name == name.strip() and name == visible(name)
    return is_seen and len(name) <= MAX_NAME_CHARS and name[:1] not in "-." and "#" not in name


def model_files() -> list[Path]:
    """Return what lies in the models folder; raises ModelError when it cannot be read."""
    folder = paths.models_dir()
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ModelError(
            f"The models folder {visible(str(folder))} cannot be read: {error.strerror}.",
            hint="Give yourself read access to it, or set LOCALPAGED_HOME.",
        ) from error


def read_entry(path: Path) -> ModelEntry | None:
    """Return the entry in the file at `path`; None, and a line in the log, when it is damaged."""
    try:
        if path.stat().st_size > MAX_ENTRY_BYTES:
            raise ValueError("it is too large")
        content = json.loads(path.read_bytes())
        return ModelEntry(path.stem, Path(content["path"]), False, str(content["origin"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        _log.warning("The model entry %s is damaged and left out: %s", visible(str(path)), error)
        return None


def find_model(name_or_path: str | Path) -> ModelEntry:
    """Return the model of that name or at that path; raises ModelNotFound with what is here."""
    wanted = str(name_or_path)
    entries = {entry.name: entry for entry in list_entries()}
    if wanted in entries:
        return entries[wanted]
    # A file `Qwen3-0.6B.gguf` is listed as qwen3-0.6b; both ways of writing it are meant.
    for name, entry in entries.items():
        if name.lower() == wanted.lower():
            return entry
    if (path := local_path(wanted)) is not None:
        name = path.stem if path.suffix == GGUF_SUFFIX else path.name
        # a name is text, in chats, over HTTP and in metrics, also where the system's is none
        return ModelEntry(os.fsencode(name).decode(errors="replace"), path, False, str(path))
    raise not_found(wanted, entries)


def local_path(text: str) -> Path | None:
    """Return the absolute path that `text` names on this machine, None when there is nothing."""
    try:
        path = Path(text).expanduser()
        return path.absolute() if text and path.exists() else None
    except (OSError, ValueError, RuntimeError):  # no path at all: too long, a NUL, no such user
        return None


def add_entry(name: str, path: Path, *, origin: str) -> ModelEntry:
    """Register the model at `path` under `name`.

    Raises ConfigError when the name is not usable or means another model already.
    """
    check_name(name)
    for entry in list_entries():
        if entry.name == name and entry.path != path:
            raise ConfigError(
                f"{name} is already {visible(str(entry.path))}.",
                hint="Give another name with --name, or remove that model first.",
            )
    entry_path = paths.models_dir() / f"{name}{ENTRY_SUFFIX}"
    content = {"path": str(path), "origin": origin}
    try:
        paths.ensure_private_dir(entry_path.parent)
        write_atomically(entry_path, json.dumps(content, indent=2).encode())
    except OSError as error:
        raise not_written(entry_path, error) from error
    return ModelEntry(name, path, is_owned=False, origin=origin)


def remove_entry(entry: ModelEntry) -> None:
    """Remove the model: an owned file itself, else the entry and not what it points to.

    Raises ModelError when the folder does not let it go.
    """
    folder = paths.models_dir()
    try:
        (folder / f"{entry.name}{ENTRY_SUFFIX}").unlink(missing_ok=True)
        if entry.is_owned:
            entry.path.unlink(missing_ok=True)
    except OSError as error:
        raise ModelError(
            f"{visible(entry.name)} cannot be removed: {error.strerror}.",
            hint=f"Give yourself write access to {visible(str(folder))}.",
        ) from error


def owned_path(name: str) -> Path:
    """Return where the file of a packaged model lies or will lie."""
    return paths.models_dir() / f"{name}{GGUF_SUFFIX}"


def check_name(name: str) -> None:
    """Raise ConfigError unless `name` can be a model's name (and a file's)."""
    if len(name) > MAX_NAME_CHARS:
        raise ConfigError(
            f"A model's name of {len(name):,} characters is too long.",
            hint=f"Give it at most {MAX_NAME_CHARS} with --name.",
        )
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{visible(name)!r} cannot be a model's name.",
            hint="Use letters, digits, dots, dashes and underscores; begin with a letter or digit.",
        )


def name_for(text: str) -> str:
    """Return a usable name for a file or Hugging Face id."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._").lower()
    return cleaned[:MAX_NAME_CHARS] or "model"


def not_found(wanted: str, here: Iterable[str]) -> ModelNotFound:
    """Return the error for a name that means nothing, with the nearest ones."""
    here = sorted(here)
    known = sorted({*here, *PACKAGED_MODELS})
    if wanted in PACKAGED_MODELS:
        command = "pull" if wanted == DEFAULT_MODEL else f"pull {wanted}"
        return ModelNotFound(
            f"The model {wanted} is not here yet.", hint=f"Fetch it: `localpaged models {command}`."
        )
    spelled = wanted[: 2 * MAX_NAME_CHARS]  # to compare a book with every name takes its time
    nearest = max(known, key=lambda name: _likeness(spelled, name))
    guess = f" Did you mean {nearest}?" if _likeness(spelled, nearest) >= MIN_LIKENESS else ""
    shown = ", ".join(here) if here else "none yet"
    named = visible(wanted if len(wanted) <= SHOWN_CHARS else f"{wanted[:SHOWN_CHARS]}…")
    if "/" in wanted:
        return ModelNotFound(
            f"There is no file or folder {named!r}.", hint=f"Models here: {shown}."
        )
    return ModelNotFound(f"There is no model {named!r} here.{guess}", hint=f"Models here: {shown}.")


def _likeness(wanted: str, name: str) -> float:
    """Return from 0 to 1 how alike the names are, a name's beginning counting as well."""
    wanted, name = wanted.lower(), name.lower()
    beginnings = (name, name[: len(wanted)], name[: len(wanted) + 1])
    return max(difflib.SequenceMatcher(None, wanted, begin).ratio() for begin in beginnings)
