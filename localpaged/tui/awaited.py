"""Results that come from other threads, taken at the coordinator's pace."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, TypeVar

from localpaged.errors import LocalPagedError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Wait:
    future: Future[Any]
    then: Callable[[Any], None]
    otherwise: Callable[[LocalPagedError], None]


class Awaited:
    """Futures somebody waits for. UI thread only; only `nudge` is called on other threads."""

    def __init__(self, nudge: Callable[[], None]) -> None:
        """`nudge` makes `take` be called soon."""
        self._nudge = nudge
        self._waits: list[_Wait] = []

    def when_done(
        self,
        future: Future[T],
        then: Callable[[T], None],
        otherwise: Callable[[LocalPagedError], None],
    ) -> None:
        """Call `then` with the result, or `otherwise` with what went wrong, at a later beat."""
        self._waits.append(_Wait(future, then, otherwise))
        future.add_done_callback(lambda _: self._nudge())

    def take(self) -> None:
        """Hand out what has arrived."""
        done = [wait for wait in self._waits if wait.future.done()]
        self._waits = [wait for wait in self._waits if wait not in done]
        for wait in done:
            try:
                result = wait.future.result()
            except LocalPagedError as error:
                wait.otherwise(error)
            except CancelledError:
                pass  # whoever cancelled it knows
            else:
                wait.then(result)
