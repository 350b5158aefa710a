"""Beginning what goes on beside the UI, so that nothing is left undone when it never begins."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from textual.dom import DOMNode
from textual.worker import WorkType

Work = Callable[[], Coroutine[Any, Any, None]]


def begin(
    node: DOMNode, work: Work, *, name: str, group: str = "default", exclusive: bool = False
) -> None:
    """Run `work` as a worker of `node`; `exclusive` ends what runs in its group. UI thread.

    Its coroutine is made when it begins: one that was made before, and is then replaced or left by
    the app's end, would never be awaited.
    """
    # the union of what a worker may be leaves mypy without a result's type
    worker = cast("WorkType[None]", work)
    node.run_worker(worker, name=name, group=group, exclusive=exclusive)
