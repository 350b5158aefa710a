"""A conversation as Markdown: to read and to print, and to be read back to the letter.

Front matter tells of the chat. Each message stands under a heading, behind a line that no message
of the chat contains: an HTML comment with a mark chosen for this file. What lies between two such
lines is the message, whatever it is: fences, headings, control characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import count

from localpaged.chat.portable.bundle import Bundle, TextSink, Tree, id_from, is_id
from localpaged.chat.portable.records import BadRecord, optional_text, text_of_time, time_of
from localpaged.chat.title import one_line
from localpaged.store.rows import Chat, Message, Turn
from localpaged.store.text import storable

FORMAT = "localpaged-markdown 1"
SUFFIXES = (".md", ".markdown")
NOT_OURS = f'its first line is not “---”, followed by “format: "{FORMAT}"”'
HEADINGS = {"system": "System", "user": "You", "assistant": "Answer"}
_MARK = re.compile(r'^mark: "([a-z]+(?:-\d+)?)"$', re.MULTILINE)
_ENTRY = re.compile(r"^([a-z]+): (.*)$")
_MAX_FRONT_CHARS = 20_000


def write_markdown(
    chat: Chat, messages: Sequence[Message], turns: Sequence[Turn], file: TextSink
) -> None:
    """Write the conversation of a chat. Raises OSError. The file must not translate newlines."""
    mark = _unused_mark(messages)
    models = {turn.tip_hash: turn.model for turn in turns if turn.tip_hash is not None}
    answered = [models[message.hash] for message in messages if models.get(message.hash)]
    file.write("---\n")
    for name, value in (
        ("format", FORMAT),
        ("mark", mark),
        ("title", chat.title),
        ("chat", chat.id),
        ("model", answered[-1] if answered else chat.model),
        ("created", text_of_time(chat.created_at)),
        ("updated", text_of_time(chat.updated_at)),
        # what stands for the conversation's own system text
        ("system", chat.system),
    ):
        if value is not None:
            # a JSON string is one of YAML, too
            file.write(f"{name}: {json.dumps(value, ensure_ascii=False)}\n")
    file.write("---\n\n")
    for message in messages:
        heading = HEADINGS.get(message.role, message.role)
        file.write(f"<!-- {mark} {message.role} -->\n## {heading}\n\n{message.text}\n\n")
    file.write(f"<!-- {mark} end -->\n")


def is_markdown(head: str) -> bool:
    """Whether a file that begins like that is one of ours."""
    return head.startswith("---") and FORMAT in head[:_MAX_FRONT_CHARS]


def read_markdown(text: str) -> Bundle:
    """Return the chat of a file. Raises BadRecord."""
    front, body = _parts(text)
    mark = _MARK.search(front)
    if mark is None:
        raise BadRecord("its front matter has no mark")
    entries = _entries(front)
    tree = Tree()
    tip_hash: str | None = None
    for role, message_text in _messages(body, mark[1]):
        tip_hash = tree.add(tip_hash, role, message_text).hash
    title = one_line(storable(str(entries.get("title", ""))))
    told_id = entries.get("chat")
    chat = Chat(
        id=str(told_id) if is_id(told_id) else id_from("markdown", title, str(tip_hash)),
        title=title,
        tip_hash=tip_hash,
        model="",
        draft="",
        created_at=time_of(entries, "created") or 0.0,
        updated_at=time_of(entries, "updated") or 0.0,
        system=optional_text(entries, "system"),
    )
    return Bundle(chat, tuple(tree.messages.values()), ())


def _unused_mark(messages: Sequence[Message]) -> str:
    """A mark that begins no comment of the messages."""
    texts = [message.text for message in messages]
    for number in count(1):
        mark = "message" if number == 1 else f"message-{number}"
        if not any(f"<!-- {mark} " in text for text in texts):
            return mark
    raise AssertionError("there are more numbers than messages")


def _parts(text: str) -> tuple[str, str]:
    text = text.removeprefix("\ufeff")
    end = text.find("\n---\n", 3, _MAX_FRONT_CHARS)
    if not text.startswith("---\n") or end < 0:
        raise BadRecord("no line “---” ends what the line “---” at its beginning begins")
    return text[4 : end + 1], text[end + 5 :]


def _entries(front: str) -> dict[str, object]:
    entries: dict[str, object] = {}
    for line in front.split("\n"):
        if match := _ENTRY.match(line):
            try:
                entries[match[1]] = json.loads(match[2])
            except (ValueError, RecursionError):
                # written by hand: as it stands
                entries[match[1]] = match[2]
    return entries


def _messages(body: str, mark: str) -> Iterator[tuple[str, str]]:
    pieces = re.split(rf"(?:^|(?<=\n))<!-- {re.escape(mark)} ([a-z]+) -->\n", body)
    if len(pieces) < 3 or pieces[-2] != "end":
        raise BadRecord("its end is missing")
    for role, piece in zip(pieces[1:-2:2], pieces[2:-1:2], strict=True):
        if role not in HEADINGS:
            raise BadRecord(f"a message has the role {role!r}")
        opening = f"## {HEADINGS[role]}\n\n"
        if not piece.startswith(opening) or not piece.endswith("\n\n"):
            raise BadRecord(f"a message is not under its heading “{opening.strip()}”")
        yield role, storable(piece[len(opening) : -2])
