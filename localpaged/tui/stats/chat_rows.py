"""Chats with KV in a model as rows of a table: which columns fit, in which order the rows are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from localpaged.stats.schema import ChatStats
from localpaged.tui.figures import byte_size, grouped, percent
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.markdown.line import STRONG, Line, Role, Run
from localpaged.tui.stats.ink import named

UNTITLED = "a chat without a title"
LEAST_TITLE_CELLS, MOST_TITLE_CELLS = 24, 72
MARK_CELLS = 2
GAP = "  "
_ORDER = {"decode": 0, "prefill": 1, "waiting": 2, "cached": 3}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `cells` wide, what stands in it, and what rows are sorted by.

    `rank` tells which columns stay where not all fit, the lowest ones. `falls` tells that a first
    look is at the largest.
    """

    name: str
    cells: int
    text: Callable[[ChatStats, int], str]
    key: Callable[[ChatStats], Any]
    rank: int
    falls: bool = True


def _state(chat: ChatStats) -> str:
    if chat.state == "prefill":
        return f"prefill {percent(chat.computed_tokens, chat.tokens)}"
    if chat.state == "waiting" and chat.queue_position is not None:
        return f"waiting #{grouped(chat.queue_position)}"
    return chat.state


def _blocks(chat: ChatStats) -> int:
    return chat.own_blocks + chat.shared_blocks


COLUMNS = (
    Column("state", 13, lambda c, _: _state(c), lambda c: _ORDER.get(c.state, 9), 0, falls=False),
    Column("tokens", 9, lambda c, _: grouped(c.tokens), lambda c: c.tokens, 1),
    Column("own", 7, lambda c, _: grouped(c.own_blocks), lambda c: c.own_blocks, 2),
    Column("shared", 8, lambda c, _: grouped(c.shared_blocks), lambda c: c.shared_blocks, 3),
    Column("KV", 10, lambda c, size: byte_size(_blocks(c) * size), _blocks, 4),
    Column(
        "answers",
        9,
        lambda c, _: grouped(c.sequences) if c.sequences else "",
        lambda c: c.sequences,
        5,
    ),
)
TITLE = Column("title", 0, lambda c, _: c.title, lambda c: c.title.casefold(), 0, falls=False)
SORTS = (*COLUMNS, TITLE)


@dataclass(frozen=True, slots=True)
class Order:
    """By which column rows are sorted; `is_reversed` against its usual direction."""

    column: Column = COLUMNS[0]
    is_reversed: bool = False

    @property
    def next(self) -> Order:
        """Sorted by the column after this one, around the end."""
        names = [column.name for column in SORTS]
        return Order(SORTS[(names.index(self.column.name) + 1) % len(SORTS)])

    @property
    def turned(self) -> Order:
        """The same column the other way round."""
        return Order(self.column, not self.is_reversed)

    @property
    def is_falling(self) -> bool:
        """Whether the largest comes first."""
        return self.column.falls != self.is_reversed

    def of(self, chats: Sequence[ChatStats]) -> list[ChatStats]:
        """Return the chats in this order; equal ones by their blocks, then by their ids."""
        usual = sorted(chats, key=lambda chat: (-_blocks(chat), chat.chat_id))
        return sorted(usual, key=self.column.key, reverse=self.is_falling)


def columns_in(cells: int) -> tuple[Column, ...]:
    """Return the columns for which there is room beside the titles."""
    room = cells - MARK_CELLS - LEAST_TITLE_CELLS
    kept: list[Column] = []
    for column in sorted(COLUMNS, key=lambda column: column.rank):
        needed = column.cells + len(GAP)
        if needed > room:
            break
        kept.append(column)
        room -= needed
    return tuple(column for column in COLUMNS if column in kept)


def title_cells(columns: Sequence[Column], cells: int) -> int:
    """Return how wide titles are beside these columns."""
    used = sum(column.cells + len(GAP) for column in columns)
    return max(1, min(MOST_TITLE_CELLS, cells - MARK_CELLS - used))


def header_line(order: Order, glyphs: Glyphs, cells: int) -> Line:
    """Return the names of the columns, the one that rows are sorted by marked."""
    columns = columns_in(cells)
    width = title_cells(columns, cells)
    runs = [
        Run(" " * MARK_CELLS),
        _named(TITLE, f"{_marked(TITLE, order, glyphs):<{width}}", order),
    ]
    for column in columns:
        text = f"{_marked(column, order, glyphs):>{column.cells}}"
        runs += [Run(GAP), _named(column, text, order)]
    return Line(tuple(runs))


def column_at(x: int, cells: int) -> Column | None:
    """Return the column whose name is drawn at a place; None beside them."""
    columns = columns_in(cells)
    end = MARK_CELLS + title_cells(columns, cells)
    if 0 <= x < end:
        return TITLE
    for column in columns:
        end += len(GAP) + column.cells
        if x < end:
            return column
    return None


def chat_line(chat: ChatStats, glyphs: Glyphs, cells: int, *, block_bytes: int) -> Line:
    """Return a chat's row in `cells`."""
    columns = columns_in(cells)
    width = title_cells(columns, cells)
    mark, role = _mark(chat, glyphs)
    is_live = chat.state != "cached"
    title = named(chat.title or UNTITLED, width, ellipsis=glyphs.ellipsis)
    runs = [Run(f"{mark} ", role), Run(title, Role.TEXT if is_live else Role.DIM)]
    for column in columns:
        text = named(column.text(chat, block_bytes), column.cells, ellipsis=glyphs.ellipsis).strip()
        tint = role if column is COLUMNS[0] else Role.TEXT if is_live else Role.DIM
        runs += [Run(GAP), Run(f"{text:>{column.cells}}", tint)]
    return Line(tuple(runs))


def _mark(chat: ChatStats, glyphs: Glyphs) -> tuple[str, Role]:
    match chat.state:
        case "decode":
            return glyphs.unread, Role.SUCCESS
        case "prefill":
            return glyphs.interrupted, Role.ACCENT
        case "waiting":
            return glyphs.queued, Role.WARNING
        case _:
            return glyphs.idle, Role.DIM


def _marked(column: Column, order: Order, glyphs: Glyphs) -> str:
    if column.name != order.column.name:
        return column.name
    return f"{column.name} {glyphs.newer if order.is_falling else glyphs.earlier}"


def _named(column: Column, text: str, order: Order) -> Run:
    is_chosen = column.name == order.column.name
    return Run(text, Role.ACCENT if is_chosen else Role.FAINT, STRONG if is_chosen else 0)
