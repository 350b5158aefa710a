"""What may be written next behind a slash: commands, then paths for those that take one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from localpaged.plain_text import visible
from localpaged.tui.figures import byte_size
from localpaged.tui.keys import BY_SLASH, Action

MAX_ENTRIES = 2_000
PATH = "path"


@dataclass(frozen=True, slots=True)
class Offer:
    """One row: `text` is what the prompt has when it is taken. All else is shown literally."""

    text: str
    name: str
    argument: str = ""
    label: str = ""
    key: str = ""


def matching(typed: str) -> Sequence[Action]:
    """Return the commands that what is typed may become; behind a finished name that one alone."""
    if not typed.startswith("/") or typed.startswith("//") or "\n" in typed:
        return ()
    name, space, _ = typed[1:].partition(" ")
    if space:
        action = BY_SLASH.get(name)
        return () if action is None or not action.argument else (action,)
    name = name.casefold()
    begins = [action for slash, action in BY_SLASH.items() if slash.startswith(name)]
    has = [a for slash, a in BY_SLASH.items() if name in slash and a not in begins]
    exact = [action for action in begins if action.slash == name]
    return (*exact, *(action for action in begins if action not in exact), *has)


def command_offers(actions: Iterable[Action]) -> tuple[Offer, ...]:
    """Return the rows of commands."""
    return tuple(
        Offer(
            text=f"/{action.slash}{' ' if action.argument else ''}",
            name=f"/{action.slash}",
            argument=action.argument,
            label=action.label,
            key="" if action.where else action.shown,
        )
        for action in actions
    )


def path_offers(command: str, typed: str) -> tuple[Offer, ...]:
    """Return what lies in the folder that is typed and begins as typed; folders first.

    Reads the disk. What cannot be read offers nothing.
    """
    folder, _, begin = typed.rpartition("/")
    place = f"{folder}/" if "/" in typed else ""
    offers: list[tuple[bool, str, Offer]] = []
    try:
        with os.scandir(Path(place or ".").expanduser()) as entries:
            for entry in islice(entries, MAX_ENTRIES):
                is_hidden = entry.name.startswith(".") and not begin.startswith(".")
                is_one_line = not set(entry.name) & {"\n", "\r"}
                if entry.name.startswith(begin) and is_one_line and not is_hidden:
                    offers.append(_entry(f"{command} {place}", entry))
    except (OSError, ValueError, RuntimeError):
        return ()
    return tuple(offer for _, _, offer in sorted(offers, key=lambda found: found[:2]))


def _entry(before: str, entry: os.DirEntry[str]) -> tuple[bool, str, Offer]:
    is_folder = entry.is_dir()
    name = f"{entry.name}/" if is_folder else entry.name
    label = "folder" if is_folder else byte_size(entry.stat(follow_symlinks=False).st_size)
    return not is_folder, entry.name, Offer(before + name, visible(name), label=label)
