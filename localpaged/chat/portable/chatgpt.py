"""The export of ChatGPT: conversations.json, a list of trees of messages.

What people and models wrote is taken, with every branch; what tools and the machinery wrote is not.
Parts of one answer that only tools stand between become one answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from localpaged.chat.portable.bundle import Bundle, Tree, id_from
from localpaged.chat.portable.records import (
    BadRecord,
    Record,
    as_record,
    name_of,
    optional_text,
    text_of,
    time_of,
)
from localpaged.chat.title import one_line
from localpaged.store.rows import Chat, Turn, TurnStatus
from localpaged.store.text import storable

_ROLES = ("system", "user", "assistant")
_HIDDEN = "is_visually_hidden_from_conversation"
_TEXTS = ("text", "multimodal_text")
# what stands for a picture or a file
_NOT_TEXT = "[not a text: {}]"


def is_chatgpt(record: object) -> bool:
    """Whether an element of a list is a conversation of such an export."""
    return isinstance(record, Mapping) and isinstance(record.get("mapping"), Mapping)


def read_conversation(record: Record) -> Bundle:
    """Return one conversation. Raises BadRecord when nothing of it can be read."""
    mapping = as_record(record.get("mapping"), "“mapping”")
    title = one_line(text_of(record, "title", ""))
    source = optional_text(record, "conversation_id") or optional_text(record, "id")
    chat_id = id_from("chatgpt", source or title, "" if source else str(record.get("create_time")))
    walk = _Walk(mapping, chat_id)
    walk.run()
    if not walk.tree.messages:
        raise BadRecord(f"{f'“{title}”' if title else 'it'} has no message that can be read")
    created = time_of(record, "create_time") or 0.0
    chat = Chat(
        id=chat_id,
        title=title,
        tip_hash=walk.tip_hash(record.get("current_node")),
        model="",
        draft="",
        created_at=created,
        updated_at=time_of(record, "update_time") or created,
    )
    messages = tuple(walk.tree.messages.values())
    return Bundle(chat, messages, tuple(walk.turns.values()), tuple(walk.problems))


class _Node(NamedTuple):
    """A kept message: where it hangs (`above`, a hash), and its text with what it goes on."""

    above: str | None
    role: str
    text: str
    hash: str
    depth: int


class _Walk:
    """Goes through a mapping from its roots down. Not for several threads.

    Invariant: `_kept[node]` is the last kept message on the way to a node, itself included.
    """

    def __init__(self, mapping: Record, chat_id: str) -> None:
        self._mapping = mapping
        self._chat_id = chat_id
        self.tree = Tree()
        self.turns: dict[str, Turn] = {}
        self.problems: list[str] = []
        self._kept: dict[str, _Node | None] = {}

    def run(self) -> None:
        """Take every node that a root leads to."""
        children: dict[str | None, list[str]] = {}
        for name, value in self._mapping.items():
            parent = value.get("parent") if isinstance(value, Mapping) else None
            known = isinstance(parent, str) and parent in self._mapping
            if isinstance(parent, str) and not known:
                self.problems.append(f"message {name!r}: the one before it is missing")
            children.setdefault(parent if known else None, []).append(name)
        waiting = [(name, None) for name in reversed(children.get(None, []))]
        num_seen = 0
        stack: list[tuple[str, _Node | None]] = list(waiting)
        while stack:
            name, above = stack.pop()
            num_seen += 1
            self._kept[name] = node = self._take(name, above)
            stack += [(child, node) for child in reversed(children.get(name, []))]
        if num_seen < len(self._mapping):
            num_lost = len(self._mapping) - num_seen
            self.problems.append(f"{num_lost} messages follow each other in a ring")
        self._drop_beginnings()

    def tip_hash(self, current_node: object) -> str | None:
        """The message that the conversation ends with; where it is not told, the longest way's."""
        node = self._kept.get(current_node) if isinstance(current_node, str) else None
        if node is not None and node.hash in self.tree.messages:
            return node.hash
        return max(self._leaves(), key=lambda leaf: leaf.depth).hash

    def _take(self, name: str, above: _Node | None) -> _Node | None:
        try:
            found = _message(self._mapping[name])
        except BadRecord as error:
            self.problems.append(f"message {name!r}: {error}")
            return above
        if found is None:
            return above
        role, text, record = found
        if role == "system" and above is not None:
            # notes of the machinery; a chat here has its system text at the beginning
            return above
        if above is not None and above.role == role:
            # tools stood between: it is the same answer, or the same question
            text, parent = f"{above.text}\n\n{text}", above.above
        else:
            parent = None if above is None else above.hash
        message = self.tree.add(parent, role, text)
        if role == "assistant":
            self.turns[message.hash] = self._turn(parent, message.hash, record)
        depth = 0 if above is None else above.depth + 1
        return _Node(parent, role, text, message.hash, depth)

    def _turn(self, parent: str | None, answer: str, record: Record) -> Turn:
        metadata = record.get("metadata")
        model = name_of(metadata, "model_slug") if isinstance(metadata, Mapping) else ""
        created = time_of(record, "create_time") or 0.0
        return Turn(
            id=id_from("turn", self._chat_id, answer),
            chat_id=self._chat_id,
            parent_hash=parent,
            tip_hash=answer,
            status=TurnStatus.DONE,
            model=model,
            created_at=created,
            finished_at=created,
        )

    def _drop_beginnings(self) -> None:
        """What became a longer message, on every way, is none of its own."""
        leaves = {node.hash for node in self._leaves()}
        num_before = 0
        while num_before != len(self.tree.messages):
            num_before = len(self.tree.messages)
            needed = leaves | {message.parent_hash for message in self.tree.messages.values()}
            self.tree.messages = {n: m for n, m in self.tree.messages.items() if n in needed}
        self.turns = {n: turn for n, turn in self.turns.items() if n in self.tree.messages}

    def _leaves(self) -> Iterator[_Node]:
        """The kept message at the end of each way."""
        records = [value for value in self._mapping.values() if isinstance(value, Mapping)]
        parents = {optional_text(record, "parent") for record in records}
        for name, node in self._kept.items():
            if node is not None and name not in parents:
                yield node


def _message(value: object) -> tuple[str, str, Record] | None:
    """Role, text and record of a node; None for one without a message to keep. Raises BadRecord."""
    record = as_record(value, "it").get("message")
    if record is None:
        return None
    message = as_record(record, "its message")
    role = text_of(as_record(message.get("author"), "its author"), "role")
    if role not in _ROLES or _is_hidden(message):
        return None
    content = as_record(message.get("content"), "its content")
    text = _text(content)
    return (role, text, message) if text.strip() else None


def _is_hidden(message: Record) -> bool:
    metadata = message.get("metadata")
    is_hidden = isinstance(metadata, Mapping) and metadata.get(_HIDDEN)
    # what goes to a tool is no answer
    recipient = message.get("recipient")
    return bool(is_hidden) or recipient not in (None, "all")


def _text(content: Record) -> str:
    if content.get("content_type") not in _TEXTS:
        return ""
    parts = content.get("parts")
    if not isinstance(parts, list):
        raise BadRecord("its parts are not a list")
    return "\n\n".join(_part(part) for part in parts if part)


def _part(part: object) -> str:
    if isinstance(part, str):
        return storable(part)
    if isinstance(part, Mapping):
        if isinstance(part.get("text"), str):
            return storable(str(part["text"]))
        return _NOT_TEXT.format(optional_text(part, "content_type") or "unknown")
    raise BadRecord("one of its parts is neither text nor object")
