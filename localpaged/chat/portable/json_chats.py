"""The JSON of chats: everything, with all branches. Its format is told in docs/chat-files.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from localpaged.chat.portable.bundle import Bundle, TextSink, Tree, id_from, is_id
from localpaged.chat.portable.records import (
    BadRecord,
    Record,
    as_list,
    as_record,
    name_of,
    optional_count,
    optional_number,
    optional_text,
    text_of,
    time_of,
)
from localpaged.chat.sampling import from_options
from localpaged.chat.sampling_options import pack_overrides, unpack_overrides, with_overrides
from localpaged.chat.thought import from_json
from localpaged.chat.title import one_line
from localpaged.engine.params import SamplingParams
from localpaged.errors import BadParameter
from localpaged.store.rows import Chat, Message, Turn, TurnStatus
from localpaged.store.whole_chat import WholeChat

FORMAT = "localpaged-chats"
VERSION = 1
LIST = "chats"
ROLES = ("system", "user", "assistant")
_COUNTS = ("seed", "prompt_tokens", "cached_tokens", "completion_tokens")
_SECONDS = ("ttft_s", "decode_s")


def write_json(wholes: Iterable[WholeChat], file: TextSink) -> None:
    """Write chats, one at a time. ASCII alone: any text comes back exactly. Raises OSError."""
    file.write(f'{{"format": "{FORMAT}", "version": {VERSION}, "{LIST}": [')
    for number, whole in enumerate(wholes):
        file.write(",\n" if number else "\n")
        json.dump(record_of(whole), file, indent=1)
    file.write("\n]}\n")


def record_of(whole: WholeChat) -> dict[str, Any]:
    """Return a chat as JSON has it."""
    chat = whole.chat
    return {
        "id": chat.id,
        "title": chat.title,
        "model": chat.model,
        "created_at": chat.created_at,
        "updated_at": chat.updated_at,
        "archived_at": chat.archived_at,
        "forked_from": chat.forked_from,
        "system": chat.system,
        "options": _parsed(chat.options),
        "tip": chat.tip_hash,
        "base": chat.base_hash,
        "view": chat.view_hash,
        "messages": [
            {"id": m.hash, "parent": m.parent_hash, "role": m.role, "text": m.text}
            for m in whole.messages
        ],
        "turns": [_turn_record(turn) for turn in whole.turns if turn.tip_hash is not None],
    }


def _turn_record(turn: Turn) -> dict[str, Any]:
    return {
        "id": turn.id,
        "question": turn.parent_hash,
        "answer": turn.tip_hash,
        "status": turn.status.value,
        "model": turn.model,
        "finish_reason": turn.finish_reason,
        "error": turn.error,
        **{name: getattr(turn, name) for name in (*_COUNTS, *_SECONDS)},
        "created_at": turn.created_at,
        "finished_at": turn.finished_at,
        "options": _parsed(turn.options),
        "thought": None if turn.thought is None else _parsed(turn.thought),
    }


def read_chats(header: Record, records: Iterable[Any]) -> Iterator[Bundle | str]:
    """Read chats; a record that cannot be one is a text that says why. Raises BadRecord."""
    version = header.get("version")
    if version != VERSION:
        newer = isinstance(version, int) and version > VERSION
        raise BadRecord(
            f"its version is {version!r}, this localpaged reads {VERSION}"
            + ("; a newer one may read it" if newer else "")
        )
    for number, record in enumerate(records, start=1):
        try:
            yield read_chat(as_record(record, "it"))
        except BadRecord as error:
            yield f"chat {number}: {error}"


def read_chat(record: Record) -> Bundle:
    """Return a chat of our own JSON. Raises BadRecord when it has no message that can be read."""
    problems: list[str] = []
    names, tree = _read_messages(record, problems)
    if problems and not names:
        raise BadRecord("it has no message that can be read")
    tip_hash = names.get(str(record.get("tip")))
    if tip_hash is None and names:
        raise BadRecord("its last message is not in it")
    told_id = record.get("id")
    title = one_line(text_of(record, "title", ""))
    chat = Chat(
        id=str(told_id) if is_id(told_id) else id_from("chat", title, str(tip_hash)),
        title=title,
        tip_hash=tip_hash,
        # which file answers is chosen here, never by a file
        model="",
        draft="",
        created_at=time_of(record, "created_at") or 0.0,
        updated_at=time_of(record, "updated_at") or 0.0,
        options=_chat_options(record),
        system=optional_text(record, "system"),
        archived_at=time_of(record, "archived_at"),
        view_hash=names.get(str(record.get("view"))),
        base_hash=names.get(str(record.get("base"))),
    )
    turns = _read_turns(record, chat.id, names, problems)
    return Bundle(chat, tuple(tree.messages.values()), tuple(turns), tuple(problems))


def _read_messages(record: Record, problems: list[str]) -> tuple[dict[str, str], Tree]:
    """The messages, and their names in the history by those in the file."""
    names: dict[str, str] = {}
    tree = Tree()
    for number, value in enumerate(as_list(record.get("messages"), "“messages”"), start=1):
        try:
            message = _read_message(as_record(value, "it"), names, tree)
        except BadRecord as error:
            problems.append(f"message {number}: {error}")
        else:
            names[str(value["id"])] = message.hash
    return names, tree


def _read_message(record: Record, names: Mapping[str, str], tree: Tree) -> Message:
    text_of(record, "id")
    role = text_of(record, "role")
    if role not in ROLES:
        raise BadRecord(f"its role is {role!r}")
    parent = record.get("parent")
    if parent is not None and str(parent) not in names:
        raise BadRecord("the message before it is missing")
    return tree.add(None if parent is None else names[str(parent)], role, text_of(record, "text"))


def _read_turns(
    record: Record, chat_id: str, names: Mapping[str, str], problems: list[str]
) -> list[Turn]:
    turns: list[Turn] = []
    for number, value in enumerate(as_list(record.get("turns", []), "“turns”"), start=1):
        try:
            turns.append(_read_turn(as_record(value, "it"), chat_id, names))
        except BadRecord as error:
            problems.append(f"turn {number}: {error}")
    return turns


def _read_turn(record: Record, chat_id: str, names: Mapping[str, str]) -> Turn:
    question, answer = (names.get(str(record.get(name))) for name in ("question", "answer"))
    if answer is None:
        raise BadRecord("its answer is missing")
    told_id = record.get("id")
    status = text_of(record, "status")
    if status not in set(TurnStatus) or TurnStatus(status).is_open:
        raise BadRecord(f"its status is {status!r}")
    return Turn(
        id=str(told_id) if is_id(told_id) else id_from("turn", chat_id, answer),
        chat_id=chat_id,
        parent_hash=question,
        tip_hash=answer,
        status=TurnStatus(status),
        model=name_of(record, "model"),
        finish_reason=optional_text(record, "finish_reason"),
        error=optional_text(record, "error"),
        seed=optional_count(record, "seed"),
        prompt_tokens=optional_count(record, "prompt_tokens"),
        cached_tokens=optional_count(record, "cached_tokens"),
        completion_tokens=optional_count(record, "completion_tokens"),
        ttft_s=optional_number(record, "ttft_s"),
        decode_s=optional_number(record, "decode_s"),
        created_at=time_of(record, "created_at") or 0.0,
        finished_at=time_of(record, "finished_at"),
        options=_turn_options(record),
        thought=_thought(record),
    )


def _parsed(saved: str) -> Any:
    return json.loads(saved)


def _chat_options(record: Record) -> str:
    """The sampling of a chat; none when a single value of it cannot be."""
    options = record.get("options")
    if isinstance(options, Mapping):
        with suppress(BadParameter, TypeError, ValueError, KeyError, AttributeError):
            values = unpack_overrides(json.dumps(dict(options)))
            with_overrides(SamplingParams(), values)
            return pack_overrides(values)
    return "{}"


def _turn_options(record: Record) -> str:
    """The sampling of a turn, as it is continued with; without a grammar, which is a program."""
    options = record.get("options")
    if isinstance(options, Mapping):
        with suppress(BadParameter, TypeError, ValueError, KeyError, AttributeError):
            packed = json.dumps({k: v for k, v in options.items() if k != "grammar"})
            from_options(packed)
            return packed
    return "{}"


def _thought(record: Record) -> str | None:
    thought = record.get("thought")
    if isinstance(thought, Mapping):
        with suppress(TypeError, ValueError):
            packed = json.dumps(dict(thought))
            parsed = from_json(packed)
            if parsed is not None and _is_place(parsed.start, parsed.end, parsed.after):
                return packed
    return None


def _is_place(*places: object) -> bool:
    return all(place is None or (isinstance(place, int) and place >= 0) for place in places)
