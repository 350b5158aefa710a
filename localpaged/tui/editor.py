"""Text through the user's own editor: $VISUAL or $EDITOR, on a file of the owner's alone."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from textual.app import SuspendNotSupported

from localpaged import paths
from localpaged.errors import ChatError, ConfigError, LocalPagedError

VARIABLES = ("VISUAL", "EDITOR")
# what there is on most machines, the friendlier one first
USUAL_EDITORS = ("nano", "vi")
MAX_BYTES = 1 << 24
_SET_IT = "Set EDITOR to a program that edits the file it is given and waits."


def editor_command() -> list[str]:
    """Return the program and its arguments. Raises ConfigError when there is none."""
    for variable in VARIABLES:
        written = os.environ.get(variable, "").strip()
        if not written:
            continue
        try:
            command = shlex.split(written)
        except ValueError as error:
            raise ConfigError(
                f"{variable} cannot be read: {written!r} has a quotation mark that is not closed.",
                hint=_SET_IT,
            ) from error
        if command:
            return command
    for name in USUAL_EDITORS:
        if shutil.which(name):
            return [name]
    raise ConfigError("There is no editor here: EDITOR is not set.", hint=_SET_IT)


def edited(text: str, *, suspended: Callable[[], AbstractContextManager[Any]]) -> str:
    """Return `text` as the user left it in the editor; waits until that has ended.

    `suspended` gives the terminal away meanwhile. Raises LocalPagedError, in one sentence, when
    the editor did not end well or what it left cannot be read; the text is then as it was.
    """
    command = editor_command()
    outcome: list[str | LocalPagedError] = []
    try:
        # an exception would leave the terminal given away: it is raised when it is back
        with suspended():
            outcome.append(_outcome(command, text))
    except SuspendNotSupported as error:
        raise ChatError("No editor can be opened in this terminal.") from error
    result = outcome[0]
    if isinstance(result, LocalPagedError):
        raise result
    return result


def _outcome(command: list[str], text: str) -> str | LocalPagedError:
    try:
        return _edited(command, text)
    except LocalPagedError as error:
        return error
    except OSError as error:
        return _failed(command, f"could not be started: {error.strerror}", hint=_SET_IT)


def _edited(command: list[str], text: str) -> str:
    folder = paths.ensure_private_dir(paths.state_dir())
    # a folder of its own: editors leave copies and swap files beside the file
    with tempfile.TemporaryDirectory(prefix="edit-", dir=folder) as private:
        path = Path(private) / "message.md"
        before = text.encode("utf-8", "replace")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        descriptor = os.open(path, flags, paths.PRIVATE_FILE_MODE)
        with os.fdopen(descriptor, "wb") as file:
            file.write(before)
        _run(command, path)
        after = _read(command, path)
    return text if after == before else _decoded(before, after)


def _run(command: list[str], path: Path) -> None:
    # sys.__stdout__ is the terminal even where descriptor 1 leads to the log
    with _interrupts_are_the_editors():
        code = subprocess.run(
            [*command, str(path)], stdout=sys.__stdout__, stderr=sys.__stdout__, check=False
        ).returncode
    if code < 0:
        raise _failed(command, f"was ended by {_signal_name(-code)}")
    if code:
        raise _failed(command, f"ended with exit code {code}")


def _read(command: list[str], path: Path) -> bytes:
    try:
        # what stands there now need not be the file that was given
        if not path.is_file():
            raise _failed(command, "left no file")
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise _failed(command, f"left a file that cannot be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise _failed(command, f"left more than {MAX_BYTES:,} bytes")
    return raw


def _decoded(before: bytes, after: bytes) -> str:
    text = after.decode("utf-8", "replace").replace("\r\n", "\n")
    # editors end the last line; that is not a line more
    return text if before.endswith(b"\n") else text.removesuffix("\n")


@contextmanager
def _interrupts_are_the_editors() -> Iterator[None]:
    """^C in the terminal reaches us as well; the editor knows better what it means."""
    handlers = {
        number: signal.signal(number, _nothing) for number in (signal.SIGINT, signal.SIGQUIT)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _nothing(number: int, frame: object) -> None:
    """Unlike SIG_IGN, this is not inherited by the editor."""


def _failed(command: list[str], what: str, *, hint: str = "") -> ChatError:
    return ChatError(f"The editor {command[0]} {what}; the text is as it was.", hint=hint)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
