"""Tells the control tokens that a template writes from the same words in a message's text.

Before rendering, every control word inside a message is wrapped in two mark characters that no
message contains. After rendering, bare control words are control tokens; wrapped ones lose their
marks and stay text. A template that cuts a message apart leaves single marks, which are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from localpaged.models.control_words import ControlWords
from localpaged.models.tokenizer_data import ControlToken

# Noncharacters and private ones: hardly ever in a message. A message that has some all the same
# only makes the choice fall on others.
_MARK_CODES = (range(0xFDD0, 0xFDF0), range(0xE000, 0xF900), range(0xF0000, 0x110000))

Marks = tuple[str, str, str, str]


class ControlText:
    """The control words of one model. Immutable."""

    def __init__(self, controls: Sequence[ControlToken]) -> None:
        self._by_text = {control.text: control for control in controls}
        self._any = ControlWords(self._by_text)
        self._hidden = ControlWords([control.text for control in controls if control.is_hidden])

    def marks(self, texts: Iterable[str]) -> Marks:
        """Return four characters that are in none of `texts`."""
        used = set().union(*texts)
        free = (chr(code) for code in chain(*_MARK_CODES) if chr(code) not in used)
        first, second, third, fourth = islice(free, 4)
        return first, second, third, fourth

    def wrap(self, text: str, marks: Marks, *, only_hidden: bool) -> str:
        """Return `text` with its control words wrapped in the first two marks."""
        words = self._hidden if only_hidden else self._any
        return words.wrapped(text, marks[0], marks[1])

    def split(self, rendered: str, marks: Marks) -> Iterator[str | ControlToken]:
        """Yield the runs of plain text, marks removed, and the control tokens between them."""
        start, end, *_ = marks
        candidates = re.compile(f"[{re.escape(start + end + self._any.first_characters)}]")
        text: list[str] = []
        done = position = 0
        while (found := candidates.search(rendered, position)) is not None:
            place, character = found.start(), found[0]
            position = place + 1
            if character in (start, end):
                text.append(rendered[done:place])
                if character == start and (
                    word := self._any.at(rendered, position, followed_by=end)
                ):
                    text.append(word)
                    position += len(word) + len(end)
                done = position
                continue
            if (word := self._any.at(rendered, place)) is None:
                continue
            control = self._by_text[word]
            before = "".join((*text, rendered[done:place]))
            yield before.rstrip() if control.strips_left else before
            yield control
            text.clear()
            position = place + len(word)
            if control.strips_right:
                position += len(rendered[position:]) - len(rendered[position:].lstrip())
            done = position
        text.append(rendered[done:])
        yield "".join(text)
