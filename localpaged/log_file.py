"""The log: one file of the owner's alone, never long, for what is of no use on the screen.

Python's logging and warnings, and exceptions that ended a thread, go there while `logging_to_file`
is entered; native libraries write to its descriptor while the UI has the screen.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from localpaged import paths

MAX_LOG_BYTES = 1 << 20

log = logging.getLogger(__name__)


def open_log(path: Path) -> int:
    """Open the log to append to it and return the descriptor; a long one is set aside first.

    Raises OSError.
    """
    paths.ensure_private_dir(path.parent)
    if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
        path.replace(path.with_suffix(".old.log"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(path, flags, paths.PRIVATE_FILE_MODE)
    os.fchmod(descriptor, paths.PRIVATE_FILE_MODE)
    return descriptor


def append_to_log(text: str) -> None:
    """Write `text` at the end of the log. Raises OSError."""
    with open(open_log(paths.log_file()), "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)


@contextmanager
def logging_to_file() -> Iterator[None]:
    """Send warnings, errors and exceptions of threads to the log while the block runs."""
    handler = _LogFileHandler(logging.WARNING)
    handler.setFormatter(
        logging.Formatter("%(asctime)s %(levelname)s %(threadName)s %(name)s: %(message)s")
    )
    root = logging.getLogger()
    hooks = threading.excepthook, sys.unraisablehook
    root.addHandler(handler)
    logging.captureWarnings(True)
    threading.excepthook, sys.unraisablehook = _log_thread_error, _log_unraisable
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = hooks
        logging.captureWarnings(False)
        root.removeHandler(handler)


class _LogFileHandler(logging.Handler):
    """Opens the file for each record: nothing is made as long as there is nothing to tell."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            append_to_log(self.format(record) + "\n")
        except OSError:
            # There is no other place for it: stdout and stderr belong to the user.
            return


def _log_thread_error(error: Any) -> None:
    name = error.thread.name if error.thread is not None else "a thread"
    exc_info = (error.exc_type, error.exc_value, error.exc_traceback)
    log.critical("%s ended with an error", name, exc_info=exc_info)


def _log_unraisable(error: Any) -> None:
    exc_info = (error.exc_type, error.exc_value, error.exc_traceback)
    log.error(
        "%s: %r", error.err_msg or "an error nobody can catch", error.object, exc_info=exc_info
    )
