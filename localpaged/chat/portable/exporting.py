"""From the history into a file that the user named, or that is named after the chat."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TextIO

from localpaged.chat.portable.bundle import TextSink
from localpaged.chat.portable.file_format import FileFormat
from localpaged.chat.portable.json_chats import write_json
from localpaged.chat.portable.markdown_chat import write_markdown
from localpaged.errors import BadChatFile
from localpaged.paths import PRIVATE_FILE_MODE
from localpaged.store.store import Store

NAME_CHARS = 60
_NOT_IN_NAMES = re.compile(r"[^\w-]+")


def export(store: Store, chat_ids: Sequence[str], kind: FileFormat, file: TextSink) -> None:
    """Write chats; Markdown takes one. Raises NotInHistory and OSError."""
    if kind is FileFormat.JSON:
        write_json((store.whole_chat(chat_id) for chat_id in chat_ids), file)
        return
    (chat_id,) = chat_ids
    conversation = store.conversation(chat_id)
    write_markdown(conversation.chat, conversation.messages, conversation.turns, file)


def export_to(
    store: Store, chat_ids: Sequence[str], kind: FileFormat, path: Path, *, force: bool = False
) -> Path:
    """Write chats into a new file of the owner's alone, and return it.

    A file that is there is only replaced with `force`, and then all at once. A folder gets a file
    named after the chat, and after a number where there is one already. Raises BadChatFile and
    NotInHistory.
    """
    try:
        if path.is_dir():
            name = file_name(store.chat(chat_ids[0]).title) if len(chat_ids) == 1 else "chats"
            path = path / f"{name}.{kind}" if force else _unused(path, name, kind)
        if path.exists() and not path.is_file():
            raise BadChatFile(f"{path} is no ordinary file.", hint="Give the path of a new file.")
        with _new_file(path, force=force) as file:
            export(store, chat_ids, kind, file)
    except FileExistsError as error:
        raise BadChatFile(
            f"{path} is there already.", hint="Give another name, or --force to replace it."
        ) from error
    except OSError as error:
        raise BadChatFile(f"{path} cannot be written: {error.strerror}.") from error
    except ValueError as error:
        raise BadChatFile(
            "This is not a path: it has a character that no file name can have."
        ) from error
    return path


def file_name(title: str) -> str:
    """Return a name for a file, made of letters, digits and dashes: no title is ever a path."""
    words = _NOT_IN_NAMES.sub("-", title).strip("-_")[:NAME_CHARS].rstrip("-_")
    return words or "chat"


def _unused(folder: Path, name: str, kind: FileFormat) -> Path:
    for number in count(1):
        path = folder / (f"{name}.{kind}" if number == 1 else f"{name}-{number}.{kind}")
        if not path.exists() and not path.is_symlink():
            return path
    raise AssertionError("there are more numbers than files")


@contextmanager
def _new_file(path: Path, *, force: bool) -> Iterator[TextIO]:
    """A file beside `path` that takes its place when it is complete. Raises FileExistsError."""
    if not force and (path.exists() or path.is_symlink()):
        raise FileExistsError
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(part, flags, PRIVATE_FILE_MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force or not _link(part, path):
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _link(part: Path, path: Path) -> bool:
    """Unlike replacing, linking never takes the place of a file that came meanwhile.

    False where the file system has no links. Raises FileExistsError.
    """
    try:
        os.link(part, path)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True
