"""What the desktop's own programs do never holds the screen up: missing, failing or hanging."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from textual.app import App

from localpaged.tui import clipboard, desktop, helper_thread
from localpaged.tui.clipboard import MAX_TERMINAL_CHARS, copy_and_tell

LONG = "x" * (MAX_TERMINAL_CHARS + 1)


class Told:
    """What the person was told, by whether it was an error."""

    def __init__(self) -> None:
        self.texts: list[tuple[str, bool]] = []

    def __call__(self, text: str, *, is_error: bool = False) -> None:
        self.texts.append((text, is_error))


@pytest.fixture
def released() -> Iterator[threading.Event]:
    """Ends what hangs, at the test's end at the latest."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A pyperclip of the test's own."""
    module: Any = ModuleType("pyperclip")
    module.PyperclipException = type("PyperclipException", (RuntimeError,), {})
    module.copy = lambda text: None
    monkeypatch.setitem(sys.modules, "pyperclip", module)
    monkeypatch.setattr(clipboard, "HELPER", helper_thread.HelperThread("clipboard"))
    monkeypatch.setattr(helper_thread, "PATIENCE_S", 0.05)
    return module


async def told_of(text: str, *, until: Callable[[Told], bool] = lambda told: bool(told.texts)):
    """Copy `text` in a running app and return what was told."""
    app: App[None] = App()
    told = Told()
    async with app.run_test() as pilot:
        copy_and_tell(app, text, "answer", tell=told)
        while not until(told):
            await pilot.pause(0.01)
    return told.texts


@pytest.mark.parametrize("error", [FileNotFoundError("no xclip"), BrokenPipeError(), OSError()])
async def test_a_helper_that_fails_is_an_error_only_for_texts_that_need_it(
    library: Any, error: OSError, recwarn: pytest.WarningsRecorder
):
    def copy(text: str) -> None:
        raise error

    library.copy = copy
    assert await told_of("short") == [("Copied the answer, 5 characters", False)]
    ((text, is_error),) = await told_of(LONG)
    assert is_error
    assert "too long" in text
    assert not recwarn.list


async def test_a_long_text_is_copied_when_the_desktop_has_it(library: Any):
    got: list[str] = []
    library.copy = got.append
    ((text, is_error),) = await told_of(LONG)
    assert (text, is_error) == (f"Copied the answer, {len(LONG):,} characters", False)
    assert got == [LONG]


async def test_the_desktops_program_gets_what_is_copied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    got = tmp_path / "got"
    program = tmp_path / "xsel"
    program.write_text(f"#!/bin/sh\ncat > {got}.part && mv {got}.part {got}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.delitem(sys.modules, "pyperclip", raising=False)
    told = await told_of("short and 漢字", until=lambda told: got.exists())
    assert got.read_text("utf-8") == "short and 漢字"
    assert told == [("Copied the answer, 12 characters", False)]


async def test_a_helper_that_hangs_is_told_and_starts_no_crowd(
    library: Any, released: threading.Event
):
    got: list[str] = []

    def copy(text: str) -> None:
        got.append(text)
        released.wait()

    library.copy = copy
    ((_text, is_error),) = await told_of(LONG)
    assert is_error
    app: App[None] = App()
    for number in range(20):
        clipboard.copy(app, f"text {number}")
    assert sum(thread.name == "clipboard" for thread in threading.enumerate()) == 1
    last = clipboard.HELPER.put(lambda: library.copy("the last") is None)
    released.set()
    assert last.result(timeout=5)
    assert got == [LONG, "the last"]


async def test_a_browser_that_hangs_holds_nothing_up_and_the_address_is_copied(
    monkeypatch: pytest.MonkeyPatch, released: threading.Event
):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(helper_thread, "PATIENCE_S", 0.05)
    monkeypatch.setattr(webbrowser, "open", lambda address: released.wait())
    assert await desktop.open_on_desktop("https://example.org/") is False


@pytest.mark.parametrize(("answer", "expected"), [(True, True), (False, False)])
async def test_a_browser_that_answers_is_believed(
    monkeypatch: pytest.MonkeyPatch, answer: bool, expected: bool
):
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda address: answer)
    assert await desktop.open_on_desktop("https://example.org/") is expected


async def test_without_a_desktop_no_browser_is_started(monkeypatch: pytest.MonkeyPatch):
    for name in desktop.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(webbrowser, "open", lambda address: pytest.fail("a browser was started"))
    assert await desktop.open_on_desktop("https://example.org/") is False
