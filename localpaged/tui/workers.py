"""Beginning what goes on beside the UI, so that nothing is left undone when it never begins."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, cast

from textual.dom import DOMNode
from textual.worker import WorkType

Work = Callable[[], Coroutine[Any, Any, None]]


def begin(
    node: DOMNode, work: Work, *, name: str, group: str = "default", exclusive: bool = False
) -> None:
    """Run `work` as a worker of `node`; `exclusive` ends what runs in its group. UI thread.

    Its coroutine is made when it begins: one that was made before, and is then replaced or left by
    the app's end, would never be awaited. It is left at an `await` as soon as the node goes.
    """

    async def run() -> None:
        await _WhileThere(node, work)

    # the union of what a worker may be leaves mypy without a result's type
    worker = cast("WorkType[None]", run)
    node.run_worker(worker, name=name, group=group, exclusive=exclusive)


class _WhileThere:
    """Goes on with `work` while its node is there; UI thread only.

    Textual ends a worker when all below its node is gone, and in a test when the whole app is. What
    it waited for may come before, and find widgets that have no screen any more.
    """

    def __init__(self, node: DOMNode, work: Work) -> None:
        self._node = node
        self._work = work
        self._was_running = False

    def __await__(self) -> Generator[Any, Any, None]:
        steps = self._work().__await__()
        error: BaseException | None = None
        try:
            while error is not None or not self._is_gone:
                try:
                    awaited = steps.send(None) if error is None else steps.throw(error)
                except StopIteration:
                    return
                error = None
                try:
                    yield awaited
                except BaseException as thrown:
                    error = thrown
        finally:
            steps.close()

    @property
    def _is_gone(self) -> bool:
        node, app = self._node, self._node.app
        self._was_running = self._was_running or app.is_running
        is_over = app._exit or (self._was_running and not app.is_running)
        return is_over or node._pruning or node._closing or node._closed
