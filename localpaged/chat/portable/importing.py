"""From a file into the history: what it is, what is new in it, what could not be read.

Importing is adding. A chat that is here already gets what the file has more; its tip moves only
forward, so an older file takes nothing back. Importing twice changes nothing the second time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from localpaged.chat.portable import chatgpt, json_chats, markdown_chat
from localpaged.chat.portable.bundle import Bundle, id_from
from localpaged.chat.portable.json_stream import BadJson, JsonStream
from localpaged.chat.portable.records import BadRecord, as_record
from localpaged.chat.portable.report import Imported, ImportProgress, ImportReport, Outcome
from localpaged.errors import BadChatFile, NotInHistory
from localpaged.store.rows import Chat, Turn, TurnStatus
from localpaged.store.store import Store
from localpaged.store.tree import make_message
from localpaged.store.writes import Write, change_chat

HEAD_CHARS = 4_096
MAX_MARKDOWN_BYTES = 64 << 20
MAX_PROBLEMS = 20
_SAVE_CHECK_S = 0.25


def import_file(
    store: Store,
    path: Path,
    *,
    is_answering: Callable[[str], bool] = lambda _: False,
    may_go_on: Callable[[], bool] = lambda: True,
    told: Callable[[ImportProgress], object] = lambda _: None,
) -> ImportReport:
    """Add the chats of a file: our JSON or Markdown, or conversations.json of ChatGPT.

    Each chat is on the disk before the next one is read; one that `is_answering`, here or in
    another program, is left as it is. It ends early when it no longer `may_go_on`. `told` is called
    at the beginning and after each chat, on this thread. Raises BadChatFile when nothing can be
    read, StoreError when nothing can be saved. Not for the UI's thread.
    """
    chats: list[Imported] = []
    problems: list[str] = []
    try:
        with _opened(path) as file:
            total_bytes = path.stat().st_size
            told(ImportProgress(total_bytes=total_bytes))
            for read in _bundles(file, path):
                if isinstance(read, str):
                    problems.append(read)
                else:
                    problems += [f"“{read.chat.title}”, {problem}" for problem in read.problems]
                    chats.append(_import(store, read, is_answering))
                told(ImportProgress(len(chats), file.buffer.tell(), total_bytes))
                if not may_go_on():
                    problems.append("the rest of the file, because the import was stopped")
                    break
    except OSError as error:
        raise BadChatFile(f"{path} cannot be read: {error.strerror}.") from error
    except (BadJson, BadRecord, UnicodeDecodeError) as error:
        what = "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        if not chats:
            raise BadChatFile(
                f"{path} has no chats that can be read: {what}.",
                hint="It has to be localpaged's JSON or Markdown, or ChatGPT's conversations.json.",
            ) from error
        problems.append(f"the rest of the file cannot be read: {what}")
    if not chats and problems:
        raise BadChatFile(f"{path} has no chat that can be read: {problems[0]}.")
    return ImportReport(tuple(chats), tuple(problems[:MAX_PROBLEMS]), len(problems))


def save(store: Store, write: Write) -> None:
    """Wait until it is durable; the disk's refusal is an error here, not something to wait out."""
    saved: Future[None] = store.submit(write)
    while True:
        try:
            return saved.result(_SAVE_CHECK_S)
        except TimeoutError:
            if store.writer.failure is not None:
                raise store.writer.failure from None


def _opened(path: Path) -> TextIO:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "is not there"
        what = "is no ordinary file" if path.exists() and not path.is_dir() else what
        raise BadChatFile(f"{path} {what}.", hint="Give the path of a file with chats.")
    # exactly as it was written, line ends included
    return path.open(encoding="utf-8-sig", newline="")


def _bundles(file: TextIO, path: Path) -> Iterator[Bundle | str]:
    with path.open("rb") as raw:
        head = raw.read(HEAD_CHARS)
    if head.startswith(b"PK"):
        raise BadRecord("it is an archive; unpack it and import its conversations.json")
    beginning = head.decode("utf-8", "replace").removeprefix("\ufeff")
    if markdown_chat.is_markdown(beginning):
        if path.stat().st_size > MAX_MARKDOWN_BYTES:
            raise BadRecord(f"it is longer than {MAX_MARKDOWN_BYTES >> 20} MiB")
        yield markdown_chat.read_markdown(file.read())
        return
    if not head.strip():
        raise BadRecord("it is empty")
    is_json = beginning.lstrip().startswith(("[", "{"))
    is_named_markdown = path.suffix.lower() in markdown_chat.SUFFIXES
    if beginning.startswith("---") or (is_named_markdown and not is_json):
        raise BadRecord(markdown_chat.NOT_OURS)
    stream = JsonStream(file)
    header = stream.header(json_chats.LIST)
    if header is None:
        yield from _exported_elsewhere(stream.elements())
    elif header.get("format") == json_chats.FORMAT and json_chats.LIST not in header:
        yield from json_chats.read_chats(header, stream.elements())
    elif chatgpt.is_chatgpt(header):
        yield chatgpt.read_conversation(header)
    else:
        raise BadRecord("its JSON is of another program")


def _exported_elsewhere(elements: Iterable[Any]) -> Iterator[Bundle | str]:
    num_read = 0
    for number, element in enumerate(elements, start=1):
        if chatgpt.is_chatgpt(element):
            num_read += 1
        elif not num_read and number > MAX_PROBLEMS:
            raise BadRecord("its JSON is of another program")
        try:
            yield chatgpt.read_conversation(as_record(element, "it"))
        except BadRecord as error:
            yield f"conversation {number}: {error}"


def _import(store: Store, bundle: Bundle, is_answering: Callable[[str], bool]) -> Imported:
    bundle = _completed(bundle)
    here, answered = _here(store, bundle.chat.id)
    known = store.known_turns([turn.id for turn in bundle.turns])
    turns = tuple(t for t in bundle.turns if t.id not in known and t.tip_hash not in answered)
    if here is None:
        save(store, Write(messages=bundle.messages, new_chats=(bundle.chat,), turns=turns))
        return Imported(bundle.chat, Outcome.NEW)
    moved = _moved(here, bundle)
    if moved == here and not turns:
        return Imported(here, Outcome.KNOWN)
    if is_answering(here.id) or store.is_answered_elsewhere(here.id):
        return Imported(here, Outcome.BUSY)
    change = change_chat(
        here.id,
        tip_hash=moved.tip_hash,
        updated_at=moved.updated_at,
        deleted_at=None,
    )
    save(store, Write(messages=bundle.messages, chat_changes=(change,), turns=turns))
    return Imported(moved, Outcome.GREW)


def _here(store: Store, chat_id: str) -> tuple[Chat | None, frozenset[str | None]]:
    """The chat as the history has it, and which of its answers have a turn."""
    try:
        whole = store.whole_chat(chat_id)
    except NotInHistory:
        return None, frozenset()
    return whole.chat, frozenset(turn.tip_hash for turn in whole.turns)


def _moved(here: Chat, bundle: Bundle) -> Chat:
    """The chat with the file's tip, if that goes on from where the chat is; and not deleted."""
    parents = {message.hash: message.parent_hash for message in bundle.messages}
    below = bundle.chat.tip_hash
    while below is not None and below != here.tip_hash:
        below = parents.get(below)
    goes_on = below == here.tip_hash and bundle.chat.tip_hash != here.tip_hash
    if not goes_on:
        return replace(here, deleted_at=None)
    updated_at = max(here.updated_at, bundle.chat.updated_at)
    tip_hash = bundle.chat.tip_hash
    return replace(here, tip_hash=tip_hash, updated_at=updated_at, deleted_at=None)


def _completed(bundle: Bundle) -> Bundle:
    """Give a turn to every answer without one and to every question at an end: by turns it is
    known which branches are a chat's."""
    told = {turn.tip_hash for turn in bundle.turns}
    parents = {message.parent_hash for message in bundle.messages}
    messages, turns = list(bundle.messages), list(bundle.turns)
    for message in bundle.messages:
        if message.role == "assistant" and message.hash not in told:
            turns.append(_turn(bundle.chat, message.parent_hash, message.hash, TurnStatus.DONE))
        is_end = message.hash not in parents and message.hash != bundle.chat.tip_hash
        if message.role == "user" and is_end:
            answer = make_message(message.hash, "assistant", "")
            messages.append(answer)
            turns.append(_turn(bundle.chat, message.hash, answer.hash, TurnStatus.STOPPED))
    return replace(bundle, messages=tuple(messages), turns=tuple(turns))


def _turn(chat: Chat, parent_hash: str | None, tip_hash: str, status: TurnStatus) -> Turn:
    return Turn(
        id=id_from("turn", chat.id, tip_hash),
        chat_id=chat.id,
        parent_hash=parent_hash,
        tip_hash=tip_hash,
        status=status,
        model="",
        created_at=chat.created_at,
        finished_at=chat.created_at,
    )
