"""The settings as a page: where things are, what the config file says and what holds without it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.cells import cell_len

from localpaged import paths
from localpaged.config_file import ConfigFile
from localpaged.config_schema import KEYMAP, KEYS
from localpaged.engine.params import DryParams
from localpaged.plain_text import visible
from localpaged.tui.markdown.line import STRONG, Role, Run
from localpaged.tui.shortened import shortened

NAME_CELLS, VALUE_CELLS = 30, 24
OF_FILE, OF_DEFAULT = "config file", "default"


def settings_runs(config: ConfigFile, cells: int) -> list[Run]:
    """Return the page, one setting a row; `cells` is its width."""
    runs = [Run("Files\n", Role.ACCENT, STRONG)]
    for name, path in _places(config.path):
        missing = "" if paths.is_there(path) else "  (not there yet)"
        room = max(8, cells - 14 - len(missing))
        runs += [
            Run(f"{name:<14}", Role.TEXT),
            Run(_end_of(str(path), room), Role.DIM),
            Run(f"{missing}\n", Role.FAINT),
        ]
    for section in dict.fromkeys(key.section for key in KEYS):
        runs.append(Run(f"\n[{section}]\n", Role.ACCENT, STRONG))
        for key in KEYS:
            if key.section == section:
                is_given = f"{section}.{key.name}" in config.given
                value = getattr(getattr(config, section), key.name) if is_given else None
                told = _text(value) if is_given else key.default.strip('"')
                runs += _row(key.name, told, is_given=is_given)
    if config.keymap:
        runs.append(Run(f"\n[{KEYMAP}]\n", Role.ACCENT, STRONG))
        for action, keys in config.keymap:
            runs += _row(action, ", ".join(keys) or "none", is_given=True)
    if config.remotes:
        runs.append(Run("\n[remote]\n", Role.ACCENT, STRONG))
        for endpoint in config.remotes:
            runs += _row(endpoint.name, endpoint.url, is_given=True)
    runs[-1] = Run(runs[-1].text.rstrip("\n"), runs[-1].role)
    return runs


def _places(config_file: Path) -> Iterable[tuple[str, Path]]:
    yield "config file", config_file
    yield "history", paths.database_file()
    yield "models", paths.models_dir()
    yield "log", paths.log_file()
    yield "cache", paths.cache_dir()


def _row(name: str, value: str, *, is_given: bool) -> list[Run]:
    told = _cut(value, VALUE_CELLS)
    return [
        Run(f"{_cut(name, NAME_CELLS - 1):<{NAME_CELLS}}", Role.TEXT if is_given else Role.DIM),
        Run(f"{told:<{VALUE_CELLS + 2}}", Role.TEXT if is_given else Role.DIM),
        Run(f"{OF_FILE if is_given else OF_DEFAULT}\n", Role.DIM if is_given else Role.FAINT),
    ]


def _cut(text: str, cells: int) -> str:
    told = visible(text)
    return told if cell_len(told) <= cells else shortened(told, cells, "…")


def _end_of(path: str, cells: int) -> str:
    """What fits of a path: its end tells more than its beginning, which people know."""
    told = visible(path)
    while cell_len(told) > cells:
        told = f"…{told.removeprefix('…')[1:]}"
    return told


def _text(value: Any) -> str:
    if isinstance(value, DryParams):
        return f"{value.multiplier:g}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (tuple, list)):
        return ", ".join(str(part) for part in value) or "none"
    return "none" if value is None else str(value)
