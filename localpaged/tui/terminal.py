"""Takes the terminal for the UI: nothing else in the process can write on the screen meanwhile.

Native libraries print to file descriptors 1 and 2 whatever Python says. While the UI runs, both
lead to the log file; the UI has a descriptor of its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from localpaged import paths
from localpaged.config_file import ConfigFile, UiSettings
from localpaged.errors import StoreError
from localpaged.log_file import open_log
from localpaged.plain_text import visible
from localpaged.tui.collector import stop_collector

if TYPE_CHECKING:
    from localpaged.chat.publisher import Subscriber
    from localpaged.chat.service import ChatService
    from localpaged.tui.app import LocalPagedApp, OpenService

NO_TERMINAL_EXIT_CODE = 2
# what cannot place its cursor; drawing there never ends
DUMB_TERMINALS = ("dumb", "unknown")
SIZE_VARIABLES = ("COLUMNS", "LINES")
TAIL_BYTES = 8_192
TAIL_LINES = 6


def can_place_cursor() -> bool:
    """Whether the terminal is one that a screen can be drawn on, by what TERM says."""
    return os.environ.get("TERM", "").lower() not in DUMB_TERMINALS


def run_chat(
    open_service: OpenService,
    *,
    is_ascii: bool = False,
    config: ConfigFile | None = None,
    first: Callable[[LocalPagedApp], object] | None = None,
) -> int:
    """Run the chat until the user quits; return the process's exit code.

    `config` tells how it looks and which keys are whose; what is wrong there is a ConfigError.
    `first` is called in the UI's thread when the history is open and the chat is shown.

    `open_service` is called when the first picture stands, and what it opened is closed at the end.
    What it raises is raised here, when the terminal is as it was. Without a terminal it says so
    and returns NO_TERMINAL_EXIT_CODE.
    """
    if not _has_terminal():
        _tell(
            "localpaged chat needs a terminal. "
            'For pipes and scripts there is: localpaged ask "your question"\n'
        )
        return NO_TERMINAL_EXIT_CODE
    if not can_place_cursor():
        kind = os.environ["TERM"]
        _tell(
            f"localpaged chat needs a terminal that can place its cursor, and TERM is {kind}. "
            'Without one there is: localpaged ask "your question"\n'
        )
        return NO_TERMINAL_EXIT_CODE
    for name in SIZE_VARIABLES:
        # a size that was exported stays as it is, whatever the window does
        os.environ.pop(name, None)
    look = UiSettings() if config is None else config.ui
    keymap = {} if config is None or not config.keymap else _keymap(config)
    opened: list[ChatService] = []

    def opening(subscriber: Subscriber) -> ChatService:
        # quitting may come in between: whoever is left has to close it
        opened.append(open_service(subscriber))
        return opened[0]

    log_file = paths.log_file()
    stop_collector()
    with taken(log_file):
        from localpaged.tui.app import LocalPagedApp
        from localpaged.tui.glyphs import ASCII, UNICODE
        from localpaged.tui.theme import usual_theme

        known_bytes = log_file.stat().st_size
        app = LocalPagedApp(
            opening,
            glyphs=ASCII if is_ascii or look.ascii else UNICODE,
            look=look,
            keymap=keymap,
            usual_theme=usual_theme(),
            first=first,
        )
        try:
            app.run()
        finally:
            for service in opened:
                service.close()
        exit_code = app.return_code or 0
    if app.failure is not None:
        raise app.failure
    if exit_code:
        tell_own_error(log_file, known_bytes)
    return exit_code


def tell_own_error(log_file: Path, known_bytes: int) -> None:
    """Say where the details are of what ended the screen: the log was `known_bytes` long before."""
    _tell(f"localpaged stopped on an error of its own. Details: {log_file}\n")
    for line in _tail(log_file, known_bytes):
        _tell(f"  {line}\n")


@contextmanager
def taken(log_file: Path) -> Iterator[None]:
    """Lead descriptors 1 and 2 to `log_file`, and Textual to the terminal; undo it at the end.

    Enter it before anything imports torch. Inside another `taken` it does nothing. Raises
    StoreError when the log cannot be written.
    """
    if _is_taken():
        yield
        return
    try:
        log_fd = open_log(log_file)
    except OSError as error:
        raise StoreError(
            f"The log {log_file} cannot be written: {error.strerror}.",
            hint="Give yourself write access to its folder, or set LOCALPAGED_HOME.",
        ) from error
    _flush()
    screen_fd, error_fd = os.dup(1), os.dup(2)
    # Textual draws on the one and asks the other for the terminal's size
    kept = sys.__stdout__, sys.__stderr__
    screen = open(screen_fd, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    sys.__stdout__ = sys.__stderr__ = screen  # type: ignore[misc]
    try:
        yield
    finally:
        sys.__stdout__, sys.__stderr__ = kept  # type: ignore[misc]
        _flush()
        # A terminal that is gone takes no last words.
        with suppress(OSError):
            screen.close()
        os.dup2(screen_fd, 1)
        os.dup2(error_fd, 2)
        for fd in (screen_fd, error_fd, log_fd):
            os.close(fd)


def _keymap(config: ConfigFile) -> dict[str, str]:
    from localpaged.tui.keymap import make_keymap

    return make_keymap(config)


def _has_terminal() -> bool:
    # inside `taken` sys.stdout is the log; these two are the terminal, inside and outside
    streams = (sys.__stdin__, sys.__stdout__)
    return all(stream is not None and stream.isatty() for stream in streams)


def _tell(text: str) -> None:
    if sys.__stderr__ is not None:
        sys.__stderr__.write(text)
        sys.__stderr__.flush()


def _is_taken() -> bool:
    return sys.__stderr__ is not None and sys.__stderr__ is sys.__stdout__


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _tail(log_file: Path, known_bytes: int) -> list[str]:
    """The last lines written since `known_bytes`, safe to print."""
    with log_file.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(known_bytes, size - TAIL_BYTES))
        text = file.read().decode("utf-8", "replace")
    return [visible(line) for line in text.splitlines() if line.strip()][-TAIL_LINES:]
