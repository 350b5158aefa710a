"""The texts of open answers on their way to the disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from localpaged.store.rows import Turn
from localpaged.store.token_ids import pack
from localpaged.store.writes import Checkpoint, Write


@dataclass(slots=True)
class _Growing:
    pieces: list[str]
    token_count: int
    token_ids: bytes | None
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

    def append(
        self, turn_id: str, text: str, token_count: int, token_ids: Sequence[int] = ()
    ) -> None:
        """Leave a piece; one atomic operation, no lock."""
        self._arrived.append(Checkpoint(turn_id, text, token_count, pack(token_ids)))

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
                if growing.token_ids is not None and arrived.token_ids is not None:
                    growing.token_ids += arrived.token_ids
                growing.is_saved = False

    def turns_saved(self, write: Write) -> None:
        """Note that a write is on the disk: its turns can have checkpoints from now on."""
        for turn in write.turns:
            if turn.id in self._texts:
                self._texts[turn.id].is_turn_saved = True

    def grown(self) -> Sequence[Checkpoint]:
        """Return the whole text of every turn that grew since it was saved."""
        return [
            Checkpoint(turn_id, "".join(growing.pieces), growing.token_count, growing.token_ids)
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
            else:
                self._open(turn)

    def _open(self, turn: Turn) -> None:
        """Begin with what the row has; a later row of the same turn has all that came before it."""
        # an answer with text but without ids cannot get complete ones any more
        ids = turn.token_ids if turn.partial_text else turn.token_ids or b""
        fresh = _Growing([turn.partial_text], turn.completion_tokens or 0, ids)
        known = self._texts.get(turn.id)
        if known is not None:
            fresh.is_turn_saved, fresh.is_saved = known.is_turn_saved, known.is_saved
        self._texts[turn.id] = fresh
