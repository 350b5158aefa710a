"""Block Markdown (paragraphs, lists, quotes, code, tables) to lines of a given width."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from functools import lru_cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from localpaged.plain_text import visible
from localpaged.tui.markdown.code import code_lines
from localpaged.tui.markdown.inline import inline_runs
from localpaged.tui.markdown.line import BLANK, EMPHASIS, STRONG, Line, Role, Run, indent
from localpaged.tui.markdown.tables import table_lines
from localpaged.tui.markdown.wrap import fold_runs, wrap_runs

MAX_NESTING = 40
MIN_WIDTH = 8
BULLETS = "•◦▪"
References = MutableMapping[str, Any]


@lru_cache(maxsize=1)
def parser() -> MarkdownIt:
    """The one parser: GitHub's flavour, HTML left as text, any link address (shown, not opened)."""
    made = MarkdownIt("gfm-like", {"html": False, "maxNesting": MAX_NESTING})
    made.validateLink = lambda url: True  # type: ignore[method-assign]
    return made


def parse(source: str, references: References | None = None) -> list[Token]:
    """Parse a document; link definitions are read from and added to `references`."""
    text = visible(source, multiline=True)
    tokens = parser().parse(text, {} if references is None else references)
    if any(token.level >= MAX_NESTING - 2 for token in tokens):
        # the parser leaves out what lies deeper: better plain than lost
        return [Token("plain", "", 0, content=text)]
    return tokens


def block_starts(source: str) -> dict[int, str]:
    """Return the line numbers where top-level blocks begin, and their types. No inline parsing."""
    state = StateBlock(source, parser(), {}, [])
    parser().block.tokenize(state, 0, state.lineMax)
    return {
        token.map[0]: token.type
        for token in state.tokens
        if token.level == 0 and token.map is not None and token.nesting >= 0
    }


def code_blocks(source: str) -> list[str]:
    """Return the exact contents of the code blocks of a document, without their fences."""
    kinds = ("fence", "code_block")
    return [token.content for token in parser().parse(source) if token.type in kinds]


def lines_of(tokens: Sequence[Token], width: int) -> list[Line]:
    """Lay parsed blocks out in `width` cells, one blank line between them."""
    return _Layout(tokens).blocks(0, len(tokens), max(MIN_WIDTH, width))


def markdown_lines(source: str, width: int) -> list[Line]:
    """Parse and lay out a whole document at once."""
    return lines_of(parse(source), width)


class _Layout:
    """Walks one token list. Every method returns lines for tokens[start:end]."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._containers: dict[str, Callable[[int, int, int], list[Line]]] = {
            "blockquote_open": self._quote,
            "bullet_list_open": self._list,
            "ordered_list_open": self._list,
            "table_open": self._table,
            "heading_open": self._heading,
            "paragraph_open": self._paragraph,
        }

    def blocks(self, start: int, end: int, width: int, *, is_tight: bool = False) -> list[Line]:
        lines: list[Line] = []
        index = start
        while index < end:
            stop = self._end_of(index)
            block = self._block(index, stop, width)
            if lines and block and not is_tight:
                lines.append(BLANK)
            lines.extend(block)
            index = stop
        return lines

    def _end_of(self, index: int) -> int:
        """The index after the block that begins at `index`."""
        depth = 0
        for position in range(index, len(self._tokens)):
            depth += self._tokens[position].nesting
            if depth <= 0:
                return position + 1
        return len(self._tokens)

    def _block(self, start: int, end: int, width: int) -> list[Line]:
        token = self._tokens[start]
        container = self._containers.get(token.type)
        if container is not None:
            return container(start, end, width)
        if token.type in ("fence", "code_block"):
            return _code(token, width)
        if token.type == "hr":
            return [Line((Run("─" * width, Role.RULE),))]
        if token.type == "inline":
            return wrap_runs(inline_runs(token), width)
        return (
            wrap_runs([Run(visible(token.content, multiline=True))], width) if token.content else []
        )

    def _paragraph(self, start: int, end: int, width: int) -> list[Line]:
        return wrap_runs(inline_runs(self._tokens[start + 1]), width)

    def _heading(self, start: int, end: int, width: int) -> list[Line]:
        level = int(self._tokens[start].tag[1:])
        marks = STRONG if level < 4 else EMPHASIS
        role = Role.HEADING if level < 3 else Role.TEXT
        lines = wrap_runs(inline_runs(self._tokens[start + 1], role, marks=marks), width)
        if level == 1 and lines:
            longest = max(sum(len(run.text) for run in line.runs) for line in lines)
            lines.append(Line(prefix=(Run("─" * min(width, longest), Role.RULE),)))
        return lines

    def _quote(self, start: int, end: int, width: int) -> list[Line]:
        bar = Run("▎ ", Role.QUOTE)
        inner = self.blocks(start + 1, end - 1, max(MIN_WIDTH, width - 2))
        return indent([_dimmed(line) for line in inner], bar, bar)

    def _list(self, start: int, end: int, width: int) -> list[Line]:
        opening = self._tokens[start]
        starts = self._children(start, end)
        is_tight = not any(
            token.type == "paragraph_open" and not token.hidden and token.level == opening.level + 2
            for token in self._tokens[start:end]
        )
        labels = self._labels(opening, starts)
        pad = max(len(label) for label in labels) if labels else 0
        lines: list[Line] = []
        for label, (first, last) in zip(labels, starts, strict=True):
            inner = self.blocks(
                first + 1, last - 1, max(MIN_WIDTH, width - pad), is_tight=is_tight
            ) or [Line()]
            if lines and not is_tight:
                lines.append(BLANK)
            lines.extend(
                indent(inner, Run(label.rjust(pad), Role.BULLET), Run(" " * pad, Role.BULLET))
            )
        return lines

    def _labels(self, opening: Token, items: Sequence[tuple[int, int]]) -> list[str]:
        if opening.type == "bullet_list_open":
            depth = sum(
                token.nesting
                for token in self._tokens[: self._tokens.index(opening)]
                if token.type.startswith("bullet_list")
            )
            return [f"{BULLETS[depth % len(BULLETS)]} "] * len(items)
        number = int(opening.attrs.get("start", 1))
        return [f"{number + index}. " for index in range(len(items))]

    def _table(self, start: int, end: int, width: int) -> list[Line]:
        rows: list[list[list[Run]]] = []
        aligns: list[str] = []
        for token in self._tokens[start:end]:
            if token.type == "tr_open":
                rows.append([])
            elif token.type in ("th_open", "td_open") and len(rows) == 1:
                style = str(token.attrs.get("style", ""))
                aligns.append(style.removeprefix("text-align:"))
            elif token.type == "inline" and rows:
                rows[-1].append(inline_runs(token, marks=STRONG if len(rows) == 1 else 0))
        return table_lines(rows, aligns, width)

    def _children(self, start: int, end: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        index = start + 1
        while index < end - 1:
            stop = self._end_of(index)
            found.append((index, stop))
            index = stop
        return found


def _code(token: Token, width: int) -> list[Line]:
    language = visible(token.info.strip().split(" ")[0])
    code = visible(token.content.rstrip("\n"), multiline=True)
    inner = max(MIN_WIDTH, width - 2)
    edge = Run(" ", Role.CODE)
    lines = [Line(prefix=(edge, Run(language, Role.CODE_LABEL)), fill=Role.CODE)]
    for runs in code_lines(code, language):
        lines.extend(line.indented(edge) for line in fold_runs(runs, inner, fill=Role.CODE))
    lines.append(Line(prefix=(edge,), glue="", fill=Role.CODE))
    return lines


def _dimmed(line: Line) -> Line:
    return line._replace(
        runs=tuple(
            run._replace(role=Role.QUOTE) if run.role is Role.TEXT else run for run in line.runs
        )
    )
