"""The four views of the block map: to every block one class, to every class a colour and a word."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from localpaged.engine.inspection import (
    AGE_BOUNDS_S,
    FIRST_CHAT,
    SEVERAL_OWNERS,
    BlockState,
    Inspection,
)

CHAT_COLOURS = 8
DIM = "-dim"
"""Ends the name of a colour that is between another one and that of free blocks."""
FREE = 0


class View(StrEnum):
    """What the colour of a block tells."""

    STATE = "state"
    CHAT = "chat"
    REFS = "references"
    AGE = "age"

    @property
    def next(self) -> View:
        """The view after this one, around the end."""
        views = list(View)
        return views[(views.index(self) + 1) % len(views)]


@dataclass(frozen=True, slots=True)
class Swatch:
    """One class of blocks: its letter, where colours cannot be told apart, and what it means.

    `paint` names its colour in the palette.
    """

    letter: str
    paint: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A class for each block, and what the classes mean. Class 0 is a free block.

    Where a pool was looked at from outside, each class may be of `blocks_per_class` blocks.
    """

    classes: bytes
    swatches: tuple[Swatch, ...]
    note: str = ""
    blocks_per_class: int = 1


STATES = (
    Swatch(".", "free", "free"),
    Swatch("#", "held", "in use"),
    Swatch("=", "cached", "cached"),
    Swatch("P", "pinned", "pinned"),
    Swatch("-", "going", "would go first"),
)
NO_PICTURE = Picture(b"", STATES)
REFS = (
    Swatch(".", "free", "free"),
    Swatch("0", "heat0", "cached, nobody"),
    Swatch("1", "heat1", "1"),
    Swatch("2", "heat2", "2"),
    Swatch("3", "heat3", "3 and 4"),
    Swatch("5", "heat4", "5 and more"),
)
_REF_CLASSES = bytes((1, 2, 3, 4, 4, 5)) + bytes([5]) * 250
AGES = (
    Swatch(".", "free", "free"),
    Swatch("0", "heat4", "now"),
    Swatch("1", "heat3", "15 s"),
    Swatch("2", "heat2", "5 min"),
    Swatch("3", "heat1", "1 h"),
    Swatch("4", "heat0", "older"),
)
assert (AGE_BOUNDS_S[0], AGE_BOUNDS_S[2], AGE_BOUNDS_S[4], AGE_BOUNDS_S[6]) == (1, 15, 300, 3_600)
_AGE_CLASSES = bytes((1, 2, 2, 3, 3, 4, 4, 5, 5)) + bytes([5]) * 247
_IS_CACHED = bytes(int(state == BlockState.CACHED) for state in range(256))
_USED = bytes([0]) + bytes([255]) * 255


@dataclass(slots=True)
class ChatColours:
    """Which chat has which colour. A chat keeps its colour while it has blocks."""

    by_chat: dict[str, int] = field(default_factory=dict)

    def follow(self, seen: Inspection) -> None:
        """Give the largest chats colours; take them from chats whose blocks are gone."""
        sizes = Counter(seen.owners)
        largest = [
            (-sizes[FIRST_CHAT + place], chat)
            for place, chat in enumerate(seen.chats)
            if sizes[FIRST_CHAT + place]
        ]
        present = {chat for _, chat in largest}
        self.by_chat = {chat: slot for chat, slot in self.by_chat.items() if chat in present}
        free = [slot for slot in range(CHAT_COLOURS) if slot not in self.by_chat.values()]
        for _, chat in sorted(largest):
            if not free:
                break
            if chat not in self.by_chat:
                self.by_chat[chat] = free.pop(0)


def picture(
    seen: Inspection, view: View, colours: ChatColours, title_of: Callable[[str], str]
) -> Picture:
    """Return the classes of all blocks in a view."""
    match view:
        case View.STATE:
            return Picture(_with_going(seen), STATES)
        case View.REFS:
            return Picture(_unless_free(seen, seen.refs.translate(_REF_CLASSES)), REFS)
        case View.AGE:
            return Picture(_unless_free(seen, seen.ages.translate(_AGE_CLASSES)), AGES)
        case View.CHAT:
            return _by_chat(seen, colours, title_of)


def grouped_classes(classes: bytes, per_cell: int) -> bytes:
    """Return one class for each `per_cell` blocks: the most frequent; a used one if there is any.

    Blocks that are used shall be seen, be they ever so few.
    """
    if per_cell == 1:
        return classes
    groups = (classes[i : i + per_cell] for i in range(0, len(classes), per_cell))
    return bytes(_most_frequent(group) for group in groups)


def _most_frequent(group: bytes) -> int:
    if group.count(group[0]) == len(group):
        return group[0]
    used = group.replace(b"\0", b"") or group
    return max(sorted(set(used)), key=used.count)


def _unless_free(seen: Inspection, classes: bytes) -> bytes:
    """Put class 0 where a block is free."""
    mask = int.from_bytes(seen.states.translate(_USED))
    return (int.from_bytes(classes) & mask).to_bytes(len(classes))


def _with_going(seen: Inspection) -> bytes:
    """Make 4 of the 2 of cached blocks that would be evicted next."""
    going = int.from_bytes(seen.going) * (4 - BlockState.CACHED)
    return (int.from_bytes(seen.states) + going).to_bytes(len(seen.states))


def _by_chat(seen: Inspection, colours: ChatColours, title_of: Callable[[str], str]) -> Picture:
    first = 3
    table = bytearray([2]) * 256  # chats without a colour of their own
    table[SEVERAL_OWNERS] = 1
    swatches = [
        Swatch(".", "free", "free"),
        Swatch("*", "several", "several chats"),
        Swatch("-", "other", "others"),
    ]
    by_slot = {slot: chat for chat, slot in colours.by_chat.items()}
    for slot in range(CHAT_COLOURS):
        chat = by_slot.get(slot)
        meaning = "" if chat is None else title_of(chat)
        swatches.append(Swatch(chr(ord("A") + slot), f"chat{slot}", meaning))
    for place, chat in enumerate(seen.chats):
        if chat in colours.by_chat:
            table[FIRST_CHAT + place] = first + colours.by_chat[chat]
    classes = _unless_free(seen, seen.owners.translate(bytes(table)))
    # what nobody holds is dim: the same classes again, behind all others
    cached = int.from_bytes(seen.states.translate(_IS_CACHED)) * len(swatches)
    dim = [Swatch(s.letter.lower(), f"{s.paint}{DIM}", s.meaning) for s in swatches]
    shaded = (int.from_bytes(classes) + cached).to_bytes(len(classes))
    return Picture(shaded, (*swatches, *dim), note="cached dim")
