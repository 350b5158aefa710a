"""What can be told of a history without opening it: nothing is made, migrated or written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlite_utils import Database

from localpaged import paths
from localpaged.store.chat_count import num_chats
from localpaged.store.database import connect
from localpaged.store.failures import explained
from localpaged.store.run_summaries import TABLE, RunSummary, select_run_summaries


@dataclass(frozen=True, slots=True)
class HistoryFacts:
    """The history's size and what is in it; `database_bytes` 0: there is none yet."""

    path: Path
    database_bytes: int = 0
    chats: int = 0
    messages: int = 0
    last_run: RunSummary | None = None


def read_facts(path: Path) -> HistoryFacts:
    """Look at a history. Raises StoreError for one that cannot be read."""
    with explained(path):
        if not paths.is_there(path):
            return HistoryFacts(path)
        db = _open(path)
        try:
            # what was written last may still be in the log beside it
            parts = (path, _log_of(path))
            runs = _runs(db, limit=1)
            return HistoryFacts(
                path,
                sum(part.stat().st_size for part in parts if part.exists()),
                chats=num_chats(db.conn),
                messages=int(db.table("messages").count),
                last_run=runs[-1] if runs else None,
            )
        finally:
            db.close()


def read_runs(path: Path, *, limit: int) -> Sequence[RunSummary]:
    """Return the latest runs, the oldest of them first. Raises StoreError."""
    with explained(path):
        if not paths.is_there(path):
            return []
        db = _open(path)
        try:
            return _runs(db, limit=limit)
        finally:
            db.close()


def _open(path: Path) -> Database:
    # where a log is, somebody writes, and then there is what SQLite needs to read, too
    as_effective = os.access in os.supports_effective_ids
    may_write = os.access(path.parent, os.W_OK, effective_ids=as_effective)
    is_still = not may_write and not _log_of(path).exists()
    return connect(path, is_reader=True, is_still=is_still)


def _log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


def _runs(db: Database, *, limit: int) -> list[RunSummary]:
    # a history that an older version wrote last has none
    return select_run_summaries(db, limit=limit) if TABLE in db.table_names() else []
