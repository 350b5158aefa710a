"""Makes a running program tell its stats, and leave a summary of its run."""

from __future__ import annotations

import os
import time

from localpaged import __version__
from localpaged.chat.service import ChatService
from localpaged.stats.collector import Collector
from localpaged.stats.publisher import StatsThread
from localpaged.stats.run_keeper import RunKeeper
from localpaged.stats.schema import Program
from localpaged.stats.source import ServiceSource
from localpaged.store.run_summaries import SaveRunSummaries
from localpaged.store.store import Store


def tell_stats(
    service: ChatService, store: Store, *, command: str, default_model: str
) -> StatsThread:
    """Begin to tell; it ends when the history is closed. `default_model` is a name or path."""
    program = Program(__version__, os.getpid(), command, time.time())
    source = ServiceSource(service, store, default_model=default_model)
    keeper = RunKeeper(
        store.run_id,
        program,
        lambda summaries: store.writer.submit_soon("run summary", SaveRunSummaries(summaries)),
    )
    stats = StatsThread(source, Collector(source, program), on_sample=keeper.note)

    def close() -> None:
        stats.close()
        keeper.end()

    store.on_closing = close
    stats.start()
    return stats
