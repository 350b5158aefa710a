"""What there is to tell while no program runs: the history, kept KV, the models, the last run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localpaged import paths
from localpaged.cli.stored import without_numpy
from localpaged.errors import LocalPagedError

if TYPE_CHECKING:
    from localpaged.store.run_summaries import RunSummary


@dataclass(frozen=True, slots=True)
class Offline:
    """What is known without a running program; `error` is why the rest is not."""

    database: Path
    database_bytes: int = 0
    chats: int = 0
    messages: int = 0
    kv_disk_bytes: int | None = None
    models: tuple[str, ...] = ()
    last_run: RunSummary | None = None
    error: LocalPagedError | None = None

    def record(self) -> dict[str, Any]:
        """Return it as JSON."""
        error = self.error
        return {
            "database": str(self.database),
            "database_bytes": self.database_bytes,
            "chats": self.chats,
            "messages": self.messages,
            "kv_disk_bytes": self.kv_disk_bytes,
            "models": list(self.models),
            "last_run": None if self.last_run is None else asdict(self.last_run),
            "error": None if error is None else {"message": error.message, "hint": error.hint},
        }


def offline_facts() -> Offline:
    """Look at files; nothing is made or changed."""
    with without_numpy():
        from localpaged.store.facts import read_facts
    from localpaged.kv_files.budget import used_bytes
    from localpaged.kv_files.folder import kv_root
    from localpaged.models.registry import list_entries

    path = paths.database_file()
    error: LocalPagedError | None = None
    models: tuple[str, ...] = ()
    try:
        kv_disk_bytes: int | None = used_bytes(kv_root())
    except OSError:
        kv_disk_bytes = None  # not known, and not what anybody asked for
    try:
        models = tuple(entry.name for entry in list_entries())
    except LocalPagedError as refused:
        error = refused
    try:
        facts = read_facts(path)
    except LocalPagedError as refused:
        return Offline(path, kv_disk_bytes=kv_disk_bytes, models=models, error=refused)
    return Offline(
        path,
        facts.database_bytes,
        facts.chats,
        facts.messages,
        kv_disk_bytes,
        models,
        facts.last_run,
        error,
    )


def past_runs(limit: int) -> Sequence[RunSummary]:
    """Return the latest runs, the oldest of them first. Raises StoreError."""
    with without_numpy():
        from localpaged.store.facts import read_runs

    return read_runs(paths.database_file(), limit=limit)
