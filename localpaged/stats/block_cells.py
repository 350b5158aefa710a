"""The block map of a snapshot: an Inspection as a few thousand characters, whatever its size."""

from __future__ import annotations

from collections import Counter

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
        states="".join(map(_state, _cells(inspection.states, each))),
        refs="".join(str(min(9, max(cell))) for cell in _cells(inspection.refs, each)),
        ages="".join(str(min(9, _youngest(cell))) for cell in _cells(inspection.ages, each)),
        owners="".join(map(_owner, _cells(inspection.owners, each))),
        chats=inspection.chats[: len(OWNER_LETTERS)],
    )


def _cells(values: bytes, each: int) -> list[bytes]:
    return [values[i : i + each] for i in range(0, len(values), each)]


def _state(cell: bytes) -> str:
    counts = Counter(cell)
    state = max(counts, key=lambda byte: (counts[byte], _WEIGHT[BlockState(byte)]))
    return _STATE_LETTERS[BlockState(state)]


def _youngest(cell: bytes) -> int:
    return min(cell)


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
