"""Work that may take long, as a future: done by the chat worker, one piece after another."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from localpaged import paths
from localpaged.errors import ChatError, LocalPagedError

log = logging.getLogger(__name__)

T = TypeVar("T")
RunSoon = Callable[[Callable[[], None]], None]


def do_later(run_soon: RunSoon, job: Callable[[], T]) -> Future[T]:
    """Have `job` done soon; the future has its result, or the LocalPagedError it ended with."""
    done: Future[T] = Future()

    def work() -> None:
        try:
            result = job()
        except LocalPagedError as error:
            done.set_exception(error)
        except Exception as error:  # whoever waits must hear of it
            log.exception("a piece of work for a chat failed")
            done.set_exception(ChatError(f"That went wrong: {error}.", hint=paths.log_hint()))
        else:
            done.set_result(result)

    run_soon(work)
    return done
