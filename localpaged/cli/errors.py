"""The border of every command: what goes wrong becomes one sentence and an exit code.

A sentence goes to stderr, a traceback only ever to the log.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from localpaged.cli.streams import OutputLost, fill_streams, watched_output
from localpaged.errors import LocalPagedError
from localpaged.plain_text import visible

UNEXPECTED_EXIT_CODE = 1
INTERRUPTED_EXIT_CODE = 130
BROKEN_PIPE_EXIT_CODE = 141


def exit_code_of(run: Callable[[], object]) -> int:
    """Run a command and return the exit code, which is what it returns if that is a number."""
    try:
        fill_streams()
        with watched_output():
            result = run()
    except KeyboardInterrupt:
        return INTERRUPTED_EXIT_CODE
    except Exception as error:
        return _told(error)
    return result if isinstance(result, int) else 0


def tell(sentence: str, *, hint: str = "") -> None:
    """Write a sentence and what to do about it to stderr."""
    try:
        print(f"localpaged: {visible(sentence)}", file=sys.stderr)
        if hint:
            print(f"hint: {visible(hint)}", file=sys.stderr)
        sys.stderr.flush()
    except OSError:
        # stderr is full or gone, and there is nowhere else to tell it. The exit code remains.
        return


def error_values(error: Exception) -> dict[str, Any]:
    """Return an error as `--json` tells it."""
    return {
        "type": type(error).__name__,
        "message": str(error),
        "hint": error.hint if isinstance(error, LocalPagedError) else "",
    }


def _told(error: Exception) -> int:
    match error:
        case LocalPagedError():
            tell(error.message, hint=error.hint)
            return error.exit_code
        case click.Abort():
            return _aborted(error)
        case click.UsageError():
            command = error.ctx.command_path if error.ctx is not None else "localpaged"
            # Click lists choices in lines of their own, without a full stop
            sentence = " ".join(error.format_message().split())
            sentence += "" if sentence.endswith((".", "?")) else "."
            tell(sentence, hint=f"`{command} --help` lists what is possible.")
            return error.exit_code
        case click.ClickException():
            tell(error.format_message())
            return error.exit_code
        case OutputLost():
            return _output_lost(error.reason)
    return _unexpected(error)


def _aborted(error: click.Abort) -> int:
    # Click makes one exception of Ctrl+C and of the end of stdin.
    if isinstance(error.__cause__ or error.__context__, KeyboardInterrupt):
        return INTERRUPTED_EXIT_CODE
    print(file=sys.stderr)
    tell(
        "Nothing was done: the question got no answer.",
        hint="Without a terminal to ask on, add --yes.",
    )
    return UNEXPECTED_EXIT_CODE


def _output_lost(reason: OSError) -> int:
    if isinstance(reason, BrokenPipeError):
        return BROKEN_PIPE_EXIT_CODE
    tell(f"stdout cannot be written: {reason.strerror}.")
    return UNEXPECTED_EXIT_CODE


def _unexpected(error: Exception) -> int:
    import time
    import traceback

    from localpaged import paths
    from localpaged.log_file import append_to_log

    now = time.strftime("%Y-%m-%d %H:%M:%S")
    try:
        append_to_log(f"{now} {''.join(traceback.format_exception(error))}")
        hint = f"Details are in {paths.log_file()}."
    except OSError as refused:
        hint = f"The log {paths.log_file()} cannot be written: {refused.strerror}."
    what = f"{type(error).__name__}: {error}".removesuffix(": ")
    tell(f"Something went wrong inside localpaged: {what}.", hint=hint)
    return UNEXPECTED_EXIT_CODE
