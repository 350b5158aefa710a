"""A shelf of models without files."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future

from localpaged.chat.models import ListedModel
from localpaged.errors import ModelNotFound
from localpaged.prompt import ChatModel
from testkit.fake_model import FakeChatModel

FILE_BYTES = 94 << 20


class FakeShelf:
    """Implements ModelShelf. Names in `slow` are opened when the test says so, with `arrive`."""

    def __init__(self, *names: str, slow: Sequence[str] = ()) -> None:
        self.names = list(names)
        self.asked: list[str] = []
        self._opened: dict[str, Future[ChatModel]] = {}
        self._slow = tuple(slow)

    def open(self, choice: str) -> Future[ChatModel]:
        """See ModelShelf."""
        self.asked.append(choice)
        if choice not in self.names:
            raise ModelNotFound(f"There is no model {choice!r} here.")
        if choice not in self._opened:
            self._opened[choice] = Future()
            if choice not in self._slow:
                self.arrive(choice)
        return self._opened[choice]

    def arrive(self, name: str, error: Exception | None = None) -> None:
        """Open a model that is slow, or fail to."""
        opened = self._opened.setdefault(name, Future())
        if error is not None:
            opened.set_exception(error)
        else:
            opened.set_result(FakeChatModel(name=name, fingerprint=f"fake {name}"))

    def listed(self) -> Sequence[ListedModel]:
        """See ModelShelf."""
        return [ListedModel(name, FILE_BYTES) for name in sorted(self.names)]
