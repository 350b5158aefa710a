"""A chat as the stretches of its message tree: where it parted, and what each way begins with."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from localpaged.store.rows import Message
from localpaged.store.whole_chat import WholeChat


@dataclass(frozen=True, slots=True)
class Stretch:
    """Messages that follow each other without another way beside them, from `first` on.

    `depth` counts the forks above it. `version` of `versions` says which of the ways that part
    there it is, both 1 where nothing parts. `is_shown`: it is on the way the chat shows;
    `is_tip`: the chat ends in it.
    """

    first: Message
    num_messages: int
    depth: int
    version: int
    versions: int
    is_shown: bool
    is_tip: bool


def stretches_of(whole: WholeChat) -> list[Stretch]:
    """Return every way of a chat, each followed by those that part from it, in their order.

    Answers that ended without a word, and were not replied to, are left out.
    """
    children = _children(whole)
    shown = _way_to(whole)
    found: list[Stretch] = []
    rest = _parted(children[None], depth=0)
    while rest:
        first, depth, version, versions = rest.pop()
        last, num_messages = first, 1
        while len(below := children[last.hash]) == 1:
            last, num_messages = below[0], num_messages + 1
        below_is_shown = any(message.hash in shown for message in children[last.hash])
        is_tip = first.hash in shown and not below_is_shown
        found.append(
            Stretch(first, num_messages, depth, version, versions, first.hash in shown, is_tip)
        )
        rest += _parted(children[last.hash], depth=depth + 1)
    return found


def _parted(messages: list[Message], *, depth: int) -> list[tuple[Message, int, int, int]]:
    """The ways that part at one place; the first one last, as a stack takes them."""
    versions = len(messages)
    return [
        (message, depth, version, versions) for version, message in enumerate(messages, start=1)
    ][::-1]


def _children(whole: WholeChat) -> defaultdict[str | None, list[Message]]:
    """What follows each message, in the order in which it was made."""
    made: dict[str, int] = {}
    for at, turn in enumerate(whole.turns):
        for name in (turn.parent_hash, turn.tip_hash):
            if name is not None:
                made.setdefault(name, at)
    known = {message.hash for message in whole.messages}
    parents = {message.parent_hash for message in whole.messages}
    children: defaultdict[str | None, list[Message]] = defaultdict(list)
    for message in sorted(whole.messages, key=lambda message: made.get(message.hash, -1)):
        is_leaf = message.hash not in parents
        if message.text or not is_leaf or message.hash == whole.chat.tip_hash:
            parent = message.parent_hash if message.parent_hash in known else None
            children[parent].append(message)
    return children


def _way_to(whole: WholeChat) -> frozenset[str]:
    by_hash = {message.hash: message for message in whole.messages}
    way: set[str] = set()
    below = whole.chat.tip_hash
    while below is not None and below in by_hash:
        way.add(below)
        below = by_hash[below].parent_hash
    return frozenset(way)
