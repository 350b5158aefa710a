"""GrammarDesk: grammars are made on a thread of their own, while others' answers stream."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from localpaged.engine.grammar import GrammarCompiler, Matcher
from localpaged.engine.params import Grammar, Request, RequestId
from localpaged.errors import EngineError, LocalPagedError

log = logging.getLogger(__name__)


class GrammarDesk:
    """Requests whose grammar is being made, one after another. Engine thread only.

    A schema may take seconds, most of them in llguidance, which lets other threads run. `wake` is
    called on the thread of the grammars whenever one is done. A process that ends waits for the
    one that is being made, never for those behind it that were dropped.
    """

    def __init__(self, compiler: GrammarCompiler) -> None:
        self._compiler = compiler
        self._open: dict[RequestId, Future[Matcher]] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="grammar")
        self.wake: Callable[[], None] = _nobody_waits

    @property
    def num_open(self) -> int:
        """Requests whose grammar was not taken yet."""
        return len(self._open)

    @property
    def has_news(self) -> bool:
        """Whether a grammar can be taken."""
        return any(future.done() for future in self._open.values())

    def begin(self, request: Request, grammar: Grammar) -> None:
        """Have a request's grammar made, and led to where its answer goes on."""
        future = self._thread.submit(
            self._compiler.compile,
            grammar,
            ignores_eos=request.sampling.ignore_eos,
            begun_ids=request.begun_ids,
        )
        self._open[request.id] = future
        future.add_done_callback(lambda _: self.wake())

    def drop(self, request_id: RequestId) -> None:
        """Forget a request; one without an open grammar is ignored."""
        future = self._open.pop(request_id, None)
        if future is not None:
            future.cancel()

    def take(self, *, may_wait: bool) -> list[tuple[RequestId, Matcher | LocalPagedError]]:
        """Return what is done, or what is wrong with it; with `may_wait` at least one of them."""
        if may_wait and self._open:
            wait(self._open.values(), return_when=FIRST_COMPLETED)
        done = [request_id for request_id, future in self._open.items() if future.done()]
        return [(request_id, _outcome(self._open.pop(request_id))) for request_id in done]


def _outcome(future: Future[Matcher]) -> Matcher | LocalPagedError:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, LocalPagedError):
        return error
    # What one request is made of must not end the others.
    log.error("a grammar could not be read", exc_info=error)
    return EngineError(f"The grammar cannot be read: {error}.")


def _nobody_waits() -> None:
    """A core that is driven step by step looks for itself."""
