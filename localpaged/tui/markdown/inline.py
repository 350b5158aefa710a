"""Inline Markdown (emphasis, code, links, images) to runs.

Links carry their address but do nothing by themselves; images and HTML are text.
"""

from __future__ import annotations

import re

from markdown_it.token import Token

from localpaged.plain_text import visible
from localpaged.tui.markdown.line import EMPHASIS, STRIKE, STRONG, UNDERLINE, Role, Run

_SPACES = re.compile(r"[ \t]+")
_MARKS = {"strong_open": STRONG, "em_open": EMPHASIS, "s_open": STRIKE}


def inline_runs(token: Token, role: Role = Role.TEXT, *, marks: int = 0) -> list[Run]:
    """Return the runs of an `inline` token; line breaks are newlines."""
    runs: list[Run] = []
    open_marks: list[int] = [marks]
    href = ""
    for child in token.children or ():
        kind = child.type
        if kind in _MARKS:
            open_marks.append(open_marks[-1] | _MARKS[kind])
        elif kind == "link_open":
            href = str(child.attrs.get("href", ""))
        elif kind == "link_close":
            _note_address(runs, href)
            href = ""
        elif kind.endswith("_close"):
            open_marks.pop()
        else:
            runs.append(_leaf(child, role, open_marks[-1], href))
    return [run for run in runs if run.text]


def _leaf(token: Token, role: Role, marks: int, href: str) -> Run:
    if token.type in ("softbreak", "hardbreak"):
        # models write verse and addresses line by line; few of them wrap their prose
        return Run("\n", role, marks, href)
    if token.type == "code_inline":
        return Run(_plain(token.content), Role.CODE_INLINE, marks, href)
    if token.type == "image":
        source = _plain(str(token.attrs.get("src", "")))
        return Run(f"[image: {_plain(token.content) or source}]", Role.DIM, marks, href)
    if href:
        return Run(_SPACES.sub(" ", _plain(token.content)), Role.LINK, marks | UNDERLINE, href)
    return Run(_SPACES.sub(" ", _plain(token.content)), role, marks)


def _note_address(runs: list[Run], href: str) -> None:
    """An address that no web browser takes is written out: its text must not hide it."""
    if href and not href.lower().startswith(("http://", "https://")):
        runs.append(Run(f" ({_plain(href)})", Role.DIM, 0, href))


def _plain(text: str) -> str:
    # entities such as &#x202e; become characters only when the text is parsed
    return visible(text)
