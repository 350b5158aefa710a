"""Lines of styled text: what every renderer here makes and the transcript paints.

A style is named, not coloured: a role (what a run of text is) plus marks (how it is emphasised).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

STRONG = 1
EMPHASIS = 2
STRIKE = 4
UNDERLINE = 8


class Role(StrEnum):
    """What a run of text is; the theme gives each a colour."""

    TEXT = "text"
    DIM = "dim"
    FAINT = "faint"
    ACCENT = "accent"
    HEADING = "heading"
    USER = "user"
    CODE_INLINE = "code-inline"
    LINK = "link"
    QUOTE = "quote"
    RULE = "rule"
    BULLET = "bullet"
    SUCCESS = "success"
    WARNING = "warning"
    ERROR = "error"
    CODE = "code"
    CODE_COMMENT = "code-comment"
    CODE_KEYWORD = "code-keyword"
    CODE_STRING = "code-string"
    CODE_NUMBER = "code-number"
    CODE_NAME = "code-name"
    CODE_TYPE = "code-type"
    CODE_LABEL = "code-label"


class Run(NamedTuple):
    """A stretch of text in one style. `marks` is a sum of STRONG, EMPHASIS, STRIKE, UNDERLINE."""

    text: str
    role: Role = Role.TEXT
    marks: int = 0
    href: str = ""


class Line(NamedTuple):
    """One row of the screen.

    `prefix` is decoration (indents, bullets, bars): painted, never copied. `glue` is what stands
    between the line before and this one in the source: a newline, or what wrapping swallowed.
    `fill` colours the rest of the row.
    """

    runs: tuple[Run, ...] = ()
    prefix: tuple[Run, ...] = ()
    glue: str = "\n"
    fill: Role | None = None

    @property
    def plain(self) -> str:
        """The line's own text, without decoration."""
        return "".join(run.text for run in self.runs)

    def indented(self, prefix: Run) -> Line:
        """The same line with one more piece of decoration in front."""
        return self._replace(prefix=(prefix, *self.prefix))


BLANK = Line()


def indent(lines: Iterable[Line], first: Run, rest: Run) -> list[Line]:
    """Put `first` before the first line and `rest` before all others."""
    return [line.indented(rest if number else first) for number, line in enumerate(lines)]
