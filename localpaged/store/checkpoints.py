"""The texts of open answers on their way to the disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from localpaged.store.writes import Checkpoint, Write


@dataclass(slots=True)
class _Growing:
    pieces: list[str]
    token_count: int
    is_turn_saved: bool = False
    is_saved: bool = True


class Checkpoints:
    """Collects text per open turn. `append` and `follow` from any thread, the rest on the writer's.

    Invariant: a text is kept from the write that opens its turn to the write that ends it, in the
    order these were submitted, so a piece that comes late cannot bring a finished turn's
    checkpoint back.
    """

    def __init__(self) -> None:
        self._arrived: deque[Checkpoint | Write] = deque()
        self._texts: dict[str, _Growing] = {}

    def append(self, turn_id: str, text: str, token_count: int) -> None:
        """Leave a piece; one atomic operation, no lock."""
        self._arrived.append(Checkpoint(turn_id, text, token_count))

    def follow(self, write: Write) -> None:
        """Begin with the turns that a write opens, forget those that it ends."""
        self._arrived.append(write)

    def collect(self) -> None:
        """Take what has arrived."""
        while self._arrived:
            arrived = self._arrived.popleft()
            if isinstance(arrived, Write):
                self._follow(arrived)
            elif (growing := self._texts.get(arrived.turn_id)) is not None:
                growing.pieces.append(arrived.text)
                growing.token_count = arrived.token_count
                growing.is_saved = False

    def turns_saved(self, write: Write) -> None:
        """Note that a write is on the disk: its turns can have checkpoints from now on."""
        for turn in write.turns:
            if turn.id in self._texts:
                self._texts[turn.id].is_turn_saved = True

    def grown(self) -> Sequence[Checkpoint]:
        """Return the whole text of every turn that grew since it was saved."""
        return [
            Checkpoint(turn_id, "".join(growing.pieces), growing.token_count)
            for turn_id, growing in self._texts.items()
            if growing.is_turn_saved and not growing.is_saved
        ]

    @property
    def has_unsaved(self) -> bool:
        """Whether some text is not on the disk."""
        return any(not growing.is_saved for growing in self._texts.values())

    def saved(self, checkpoints: Iterable[Checkpoint]) -> None:
        """Note that these are on the disk."""
        for point in checkpoints:
            growing = self._texts[point.turn_id]
            growing.pieces = [point.text]
            growing.is_saved = True

    def _follow(self, write: Write) -> None:
        for turn in write.turns:
            if not turn.status.is_open:
                self._texts.pop(turn.id, None)
            elif turn.id not in self._texts:
                growing = _Growing([turn.partial_text], turn.completion_tokens or 0)
                self._texts[turn.id] = growing
