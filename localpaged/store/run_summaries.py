"""What each run of the program came to, one row for each model in it; written while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields

from sqlite_utils import Database

TABLE = "run_summaries"
KEPT_SUMMARIES = 5_000


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Counts from the model's loading to `last_at`, which is the run's end once it `is_ended`.

    Times are Unix seconds; `busy_s` is what the engine's steps took. Rates are the most of one
    second; medians are in milliseconds, None where nothing was measured. `docs/stats.md` defines
    the counts.
    """

    run_id: str
    model: str
    command: str
    version: str
    pid: int
    started_at: float
    last_at: float
    is_ended: bool = False
    requests: int = 0
    steps: int = 0
    busy_s: float = 0.0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    prefilled_tokens: int = 0
    generated_tokens: int = 0
    peak_held_blocks: int = 0
    max_blocks: int = 0
    bytes_per_block: int = 0
    peak_prefill_tokens_per_s: float = 0.0
    peak_decode_tokens_per_s: float = 0.0
    ttft_p50_ms: float | None = None
    inter_token_p50_ms: float | None = None
    block_copies: int = 0
    evicted_blocks: int = 0
    swapped_in_blocks: int = 0
    swapped_out_blocks: int = 0
    preemptions: int = 0


_COLUMNS = tuple(field.name for field in fields(RunSummary))


@dataclass(frozen=True, slots=True)
class SaveRunSummaries:
    """Put the rows of this run in place of what they were; the oldest of all runs go."""

    summaries: Sequence[RunSummary]

    def apply(self, db: Database, *, run_id: str) -> None:
        """Insert or replace."""
        places = ", ".join(f":{name}" for name in _COLUMNS)
        for summary in self.summaries:
            db.execute(
                f"INSERT OR REPLACE INTO {TABLE} ({', '.join(_COLUMNS)}) VALUES ({places})",
                asdict(summary),
            )
        db.execute(
            f"DELETE FROM {TABLE} WHERE run_id NOT IN"
            f" (SELECT run_id FROM {TABLE} ORDER BY started_at DESC LIMIT ?)",
            [KEPT_SUMMARIES],
        )


def select_run_summaries(db: Database, *, limit: int) -> list[RunSummary]:
    """Return the latest runs, the oldest of them first."""
    rows = db.query(
        f"SELECT {', '.join(_COLUMNS)} FROM {TABLE} ORDER BY started_at DESC, model LIMIT ?",
        [limit],
    )
    found = [RunSummary(**{**row, "is_ended": bool(row["is_ended"])}) for row in rows]
    return found[::-1]
