"""Facts of the history: version, whether it is whole, copies, and who has it open."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from localpaged import paths
from localpaged.doctor.fact import Fact, note, problem
from localpaged.store.checkup import Checkup, check_up, holders, log_of
from localpaged.store.failures import BACKUPS, no_file

CHECKING_S = 0.8
_MAX_COMMAND_CHARS = 60


def history_facts(path: Path) -> Iterator[Fact]:
    """Tell the state of the history at `path`. Raises StoreError with what is wrong with it."""
    if path.is_symlink() and not paths.is_there(path):
        yield problem(
            "history",
            f"{path} is a link to a file that is not there",
            "Mount that disk, or remove it.",
        )
        return
    if not path.exists():
        yield Fact("history", f"none yet; {path} will be made", numbers={"chats": 0})
        return
    if not path.is_file():
        raise no_file(path)
    if log_of(path).exists() and log_of(path).stat().st_size and not _side(path).exists():
        # SQLite would have to make the index of the log
        text = f"{path} has a log without its index, and is not looked into, which would change it"
        yield note("history", text, "The next start takes the log over.")
        return
    yield from _checked(check_up(path, limit_s=CHECKING_S), path)


def copies_facts(path: Path) -> Iterator[Fact]:
    """Tell the copies that were made before the history's schema changed. Raises OSError."""
    folder = path.parent / BACKUPS
    copies = sorted(folder.glob(f"{path.stem}-*.db"))
    num_bytes = sum(copy.stat().st_size for copy in copies)
    numbers = {"count": len(copies), "bytes": num_bytes}
    if not copies:
        yield Fact("copies", "none: one is made before its schema changes", numbers=numbers)
        return
    text = f"{len(copies)}, {num_bytes / 1e6:,.1f} MB, the latest {copies[-1].name}"
    yield Fact("copies", text, numbers=numbers)


def users_facts(path: Path) -> Iterator[Fact]:
    """Tell which programs have the history open. Raises OSError."""
    files = [path, _side(path), log_of(path)]
    others = [holder for holder in holders(files) if holder.pid != os.getpid()]
    if not others:
        yield Fact("history open in", "no program", numbers={"pids": []})
        return
    texts = []
    for holder in others:
        is_writing = " (writes)" if holder.is_writing else ""
        texts.append(f"{holder.pid} {_command(holder.pid)}{is_writing}")
    yield Fact(
        "history open in", "; ".join(texts), numbers={"pids": [holder.pid for holder in others]}
    )


def _checked(found: Checkup, path: Path) -> Iterator[Fact]:
    numbers = {
        "path": str(path),
        "database_bytes": found.database_bytes,
        "log_bytes": found.log_bytes,
        "chats": found.chats,
        "schema": found.schema or None,
        "is_whole": found.is_whole,
    }
    text = f"{path}, {(found.database_bytes + found.log_bytes) / 1e6:,.1f} MB, "
    text += f"{found.chats:,} chat{'' if found.chats == 1 else 's'}"
    if os.access(path, os.W_OK):
        yield Fact("history", text, numbers=numbers)
    else:
        advice = "Give yourself write access: until then chats are shown and not kept."
        yield problem("history", f"{text}; it cannot be written", advice, **numbers)
    if found.unknown:
        text = f"{found.unknown[-1]}, which only a newer localpaged knows"
        yield problem("history schema", text, "Update localpaged, or set LOCALPAGED_HOME.")
    elif found.pending:
        text = f"{found.schema or 'empty'}; the next start brings it to {found.pending[-1]}"
        yield Fact("history schema", text)
    else:
        yield Fact("history schema", f"{found.schema}, the latest")
    if found.is_whole is None:
        text = f"not finished in {CHECKING_S} s; nothing wrong was seen so far"
        yield note("history pages", text, f'sqlite3 "{path}" "PRAGMA quick_check" looks at all.')
    else:
        yield Fact("history pages", "whole")


def _side(path: Path) -> Path:
    return path.with_name(path.name + "-shm")


def _command(pid: int) -> str:
    import psutil

    try:
        text = " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return "(another user's, or gone)"
    return text if len(text) <= _MAX_COMMAND_CHARS else f"{text[: _MAX_COMMAND_CHARS - 1]}…"
