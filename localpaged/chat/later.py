"""Work that may take long, as a future: done by the chat worker, one piece after another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from localpaged.chat.errors import unexpected
from localpaged.errors import LocalPagedError

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
            done.set_exception(unexpected("That went wrong", error))
        else:
            done.set_result(result)

    run_soon(work)
    return done
