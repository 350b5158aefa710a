"""A paste whose end never comes is given up after a while; a slow one stays whole."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.message import Message

from localpaged.tui.paste_guard import LOST_AFTER_TICKS, MAX_PIECE_CHARS, GuardedParser, restored
from localpaged.tui.stats.app import StatsApp
from testkit.scripted_stats import ScriptedSource

START, END = "\x1b[200~", "\x1b[201~"
PIECE_CHARS = 1000
SOON, LATE = LOST_AFTER_TICKS - 1, LOST_AFTER_TICKS + 1


class Line:
    """A terminal's line whose time goes on when the test says so."""

    def __init__(self, *, max_piece_chars: int = PIECE_CHARS) -> None:
        self._parser = GuardedParser(max_piece_chars=max_piece_chars)
        self._found: list[Message] = []

    def type(self, data: str) -> None:
        """Hand over what was read."""
        self._keep(self._parser.feed(data))

    def wait(self, num_ticks: int) -> None:
        """Let the time pass in which nothing comes."""
        for _ in range(num_ticks):
            self._keep(self._parser.tick())

    def take(self) -> list[str]:
        """Return keys by name and pastes as `paste:TEXT` since the last time."""
        found, self._found = self._found, []
        return [
            event.key if isinstance(event, events.Key) else f"paste:{restored(event).text}"
            for event in found
            if isinstance(event, (events.Key, events.Paste))
        ]

    def _keep(self, found: Iterable[Message]) -> None:
        self._found += found


@pytest.mark.parametrize("cut", ["", "\x1b", "\x1b[20", "\x1b[201"])
def test_a_paste_that_never_ends_is_given_and_keys_are_keys_again(cut: str):
    line = Line()
    line.type(f"{START}one\rtwo{cut}")
    line.wait(SOON)
    assert line.take() == []
    line.wait(LATE)
    assert line.take() == [f"paste:one\rtwo{cut}"]
    line.type("\x11")
    line.type("a")
    assert line.take() == ["ctrl+q", "a"]


def test_nothing_in_a_lost_paste_is_nothing():
    line = Line()
    line.type(START)
    line.wait(LATE)
    line.type("\x11")
    assert [found for found in line.take() if found != "paste:"] == ["ctrl+q"]


def test_a_large_paste_over_a_slow_line_is_whole():
    text = "line of text\r" * 20_000
    line = Line(max_piece_chars=MAX_PIECE_CHARS)
    line.type(START)
    for at in range(0, len(text), 4096):
        line.wait(SOON)
        line.type(text[at : at + 4096])
    line.wait(SOON)
    line.type(END)
    assert line.take() == [f"paste:{text}"]


@pytest.mark.parametrize("rest", ["three\r" * 40, f"three\r{END}", f"\x1b[31m{'a' * 80}\r{END}"])
def test_the_rest_of_a_paste_that_was_held_up_sends_nothing(rest: str):
    line = Line()
    line.type(f"{START}one\rtwo\r")
    line.wait(LATE)
    line.type(rest)
    line.wait(LATE)
    line.type("\r")
    text = rest.removesuffix(END)
    assert line.take() == ["paste:one\rtwo\r", f"paste:{text}", "enter"]


def test_the_next_paste_after_a_lost_one_is_whole():
    line = Line()
    line.type(f"{START}one")
    line.wait(LATE)
    line.type(f"{START}two{END}b")
    assert line.take() == ["paste:one", "paste:two", "b"]


def test_mouse_and_keys_after_a_lost_paste_are_no_text():
    line = Line()
    line.type(f"{START}one")
    line.wait(LATE)
    line.type("\x1b[<35;10;10M" * 9)
    line.type(f"two\r{END}\x11")
    assert line.take() == ["paste:one", "paste:two\r", "ctrl+q"]


def test_a_paste_without_end_is_given_in_pieces_of_a_limited_size():
    line = Line()
    line.type(START)
    for _ in range(3):
        line.type("a\r" * (PIECE_CHARS // 2))
    line.type(f"b{END}\r")
    *pastes, last = line.take()
    assert last == "enter"
    texts = [paste.removeprefix("paste:") for paste in pastes]
    assert "".join(texts) == "a\r" * (3 * PIECE_CHARS // 2) + "b"
    assert len(texts) > 1


def test_outside_of_a_paste_waiting_gives_nothing():
    line = Line()
    line.type("a")
    line.type(f"{START}b{END}")
    line.take()
    line.wait(LATE)
    assert line.take() == []


def test_the_dashboard_reads_its_terminal_as_the_chat_does(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(linux_driver, "XTermParser", XTermParser)
    StatsApp(ScriptedSource())
    assert linux_driver.XTermParser is GuardedParser  # type: ignore[attr-defined]
