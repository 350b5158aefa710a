"""The block map of a snapshot: an Inspection as a few thousand characters, whatever its size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from localpaged.engine.inspection import (
    FIRST_CHAT,
    NO_OWNER,
    OTHER_OWNER,
    SEVERAL_OWNERS,
    BlockState,
    Inspection,
)
from localpaged.stats.schema import (
    MAP_ACTIVE,
    MAP_CACHED,
    MAP_FREE,
    MAP_PINNED,
    MAX_MAP_CELLS,
    OWNER_LETTERS,
    OWNER_NONE,
    OWNER_OTHER,
    OWNER_SEVERAL,
    BlockMap,
)

_STATE_LETTERS = {
    BlockState.FREE: MAP_FREE,
    BlockState.HELD: MAP_ACTIVE,
    BlockState.CACHED: MAP_CACHED,
    BlockState.PINNED: MAP_PINNED,
}
# Of equally many blocks the state of more use is shown.
_WEIGHT = {BlockState.FREE: 0, BlockState.CACHED: 1, BlockState.HELD: 2, BlockState.PINNED: 3}


def block_map(inspection: Inspection) -> BlockMap:
    """Return the map; more than MAX_MAP_CELLS blocks share cells."""
    each = max(1, -(-inspection.num_blocks // MAX_MAP_CELLS))
    return BlockMap(
        num_blocks=inspection.num_blocks,
        blocks_per_cell=each,
        states=_marks(inspection.states, each, _state),
        refs=_marks(inspection.refs, each, lambda cell: str(min(9, max(cell)))),
        ages=_marks(inspection.ages, each, lambda cell: str(min(9, *cell))),
        owners=_marks(inspection.owners, each, _owner),
        chats=inspection.chats[: len(OWNER_LETTERS)],
    )


def _marks(values: bytes, each: int, mark: Callable[[bytes], str]) -> str:
    if each == 1:
        return values.decode("latin-1").translate({v: mark(bytes((v,))) for v in set(values)})
    # most cells are like others: free, or in the middle of one chat
    known: dict[bytes, str] = {}
    marks = []
    for start in range(0, len(values), each):
        cell = values[start : start + each]
        if cell not in known:
            known[cell] = mark(cell)
        marks.append(known[cell])
    return "".join(marks)


def _state(cell: bytes) -> str:
    counts = Counter(cell)
    state = max(counts, key=lambda byte: (counts[byte], _WEIGHT[BlockState(byte)]))
    return _STATE_LETTERS[BlockState(state)]


def _owner(cell: bytes) -> str:
    owners = set(cell) - {NO_OWNER}
    if not owners:
        return OWNER_NONE
    owner = owners.pop()
    if owners or owner == SEVERAL_OWNERS:
        return OWNER_SEVERAL
    place = owner - FIRST_CHAT
    return (
        OWNER_OTHER
        if owner == OTHER_OWNER or place >= len(OWNER_LETTERS)
        else (OWNER_LETTERS[place])
    )
