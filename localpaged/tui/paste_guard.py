"""Keeps an escape character inside a paste from ending it: what is pasted is text, all of it.

Textual's parser gives a paste up at the first escape in it and reads the rest as keys, so that its
line ends would send messages. Inside the brackets of a paste an escape is therefore handed to the
parser as a stand-in from the private use area, and put back into the text of the paste event.

A paste whose end never comes, as when a line drops, would take every key that follows as
its text. When nothing has come for a while, what there is of it is given and keys are keys again.
Should the rest come late, it is still no typing: many characters in one read, or an end to them.

A key with a number that no character has ends Textual's parser, and the program with it: here that
read is given up, and the next one is understood again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from textual import events
from textual._parser import Parser
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.drivers import linux_driver
from textual.message import Message

STAND_IN = "\ue01b"
# Ticks of the driver, a tenth of a second each in which nothing came: counted, and not taken from
# a clock, so that a process that stood still does not give up what waits to be read.
LOST_AFTER_TICKS = 20
MAX_PIECE_CHARS = 2**24  # of a paste; the parser keeps each in memory until it is given
TYPED_CHARS = 32  # nobody types more between two reads
_log = logging.getLogger(__name__)


def guard_pastes() -> None:
    """Have the terminal driver use the guarded parser."""
    linux_driver.XTermParser = GuardedParser  # type: ignore[attr-defined]


def restored(event: events.Paste) -> events.Paste:
    """Return the paste with its own escape characters."""
    return events.Paste(event.text.replace(STAND_IN, "\x1b")) if STAND_IN in event.text else event


class GuardedParser(XTermParser):
    """The terminal's input thread. Remembers whether a paste is open, over reads of any size."""

    def __init__(self, debug: bool = False, *, max_piece_chars: int = MAX_PIECE_CHARS) -> None:
        super().__init__(debug)
        self._max_piece_chars = max_piece_chars
        self._num_quiet_ticks = 0
        self._is_pasting = False
        self._was_lost = False
        self._num_piece_chars = 0
        self._outside = ""
        self._held = ""

    def feed(self, data: str) -> Iterable[Message]:
        """Parse what was read, escapes inside a paste replaced."""
        if not data:
            return super().feed(data)
        self._num_quiet_ticks = 0
        if self._was_lost:
            is_rest = _is_rest(data)
            # the mouse and the arrows say nothing about what comes after them
            self._was_lost = not is_rest and data.startswith("\x1b")
            data = BRACKETED_PASTE_START + data if is_rest else data
        # To the parser nothing means the end; here it only means that a read is held back.
        guarded = self._guarded(data)
        return self._parsed(guarded) if guarded else ()

    def tick(self) -> Iterable[Message]:
        """Give up a paste of which nothing came for a while; called ten times a second."""
        self._num_quiet_ticks += 1
        if not self._is_pasting or self._num_quiet_ticks < LOST_AFTER_TICKS:
            return super().tick()
        _log.warning("the end of a paste did not come: it is given as it is")
        rest, self._held = self._held.replace("\x1b", STAND_IN), ""
        self._is_pasting, self._was_lost = False, True
        return self._parsed(rest + BRACKETED_PASTE_END)

    def _parsed(self, data: str) -> Iterable[Message]:
        try:
            yield from super().feed(data)
        except (ValueError, OverflowError) as error:
            _log.warning("the terminal sent a key that there is not: %s", error)
            Parser.__init__(self)

    def _guarded(self, data: str) -> str:
        data, self._held = self._held + data, ""
        parts: list[str] = []
        while data:
            part, data = self._paste_part(data) if self._is_pasting else self._outer_part(data)
            parts.append(part)
        return "".join(parts)

    def _outer_part(self, data: str) -> tuple[str, str]:
        seen = self._outside + data
        at = seen.find(BRACKETED_PASTE_START)
        if at < 0:
            # The start may be cut by the end of a read, but an Escape key must not wait for it.
            self._outside = seen[-(len(BRACKETED_PASTE_START) - 1) :]
            return data, ""
        end = at + len(BRACKETED_PASTE_START) - len(self._outside)
        self._is_pasting, self._outside, self._num_piece_chars = True, "", 0
        return data[:end], data[end:]

    def _paste_part(self, data: str) -> tuple[str, str]:
        at = data.find(BRACKETED_PASTE_END)
        if at >= 0:
            self._is_pasting = False
            end = at + len(BRACKETED_PASTE_END)
            return data[:at].replace("\x1b", STAND_IN) + BRACKETED_PASTE_END, data[end:]
        for length in range(len(BRACKETED_PASTE_END) - 1, 0, -1):
            if data.endswith(BRACKETED_PASTE_END[:length]):
                data, self._held = data[:-length], data[-length:]
                break
        self._num_piece_chars += len(data)
        piece = data.replace("\x1b", STAND_IN)
        if self._num_piece_chars > self._max_piece_chars:
            self._num_piece_chars = 0
            piece += BRACKETED_PASTE_END + BRACKETED_PASTE_START
        return piece, ""


def _is_rest(data: str) -> bool:
    """Whether what comes after a lost paste is more of it, and not somebody at the keys."""
    start, end = data.find(BRACKETED_PASTE_START), data.find(BRACKETED_PASTE_END)
    if end >= 0:
        return start < 0 or end < start
    return len(data) > TYPED_CHARS and start < 0 and not data.startswith("\x1b")
