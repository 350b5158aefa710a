"""Every glyph of the chrome, with a twin for terminals that show ASCII alone."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of glyphs, each one cell wide."""

    spinner: str
    queued: str
    unread: str
    error: str
    interrupted: str
    current: str
    idle: str
    prompt: str
    rule: str
    bar_held: str
    bar_cached: str
    bar_free: str
    earlier: str
    newer: str
    stopped: str
    ellipsis: str
    dot: str
    folded: str
    unfolded: str
    space: str
    line_end: str
    fork: str
    before_version: str
    after_version: str


UNICODE = Glyphs(
    spinner="⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏",
    queued="◌",
    unread="●",
    error="!",
    interrupted="◐",
    current="›",
    idle=" ",
    prompt="❯",
    rule="─",
    bar_held="█",
    bar_cached="▒",
    bar_free="·",
    earlier="▲",
    newer="▼",
    stopped="■",
    ellipsis="…",
    dot="·",
    folded="▸",
    unfolded="▾",
    space="␣",
    line_end="↵",
    fork="↳",
    before_version="‹",
    after_version="›",
)

ASCII = Glyphs(
    spinner="|/-\\",
    queued=".",
    unread="*",
    error="!",
    interrupted="~",
    current=">",
    idle=" ",
    prompt=">",
    rule="-",
    bar_held="#",
    bar_cached="=",
    bar_free=".",
    earlier="^",
    newer="v",
    stopped="x",
    ellipsis="...",
    dot="|",
    folded="+",
    unfolded="-",
    space="_",
    line_end="$",
    fork="+",
    before_version="<",
    after_version=">",
)
