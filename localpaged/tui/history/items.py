"""Chats and hits as the history screen lists them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from localpaged.plain_text import visible
from localpaged.store.fold import fold
from localpaged.store.rows import Chat
from localpaged.store.scope import DELETED_KEPT_S
from localpaged.store.snippet import Snippet
from localpaged.tui.figures import grouped
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.markdown.line import STRONG, Line, Role, Run
from localpaged.tui.paint import cells_of, cut_runs
from localpaged.tui.shortened import shortened

if TYPE_CHECKING:
    from localpaged.store.search import SearchHit

NO_TITLE = "New chat"
DAY_S = 86_400.0
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """One thing to choose: a chat, or a message in it with the stretch that was found."""

    chat: Chat
    message_hash: str | None = None
    role: str = ""
    snippet: Snippet | None = None
    is_on_branch: bool = True

    @property
    def found(self) -> tuple[str, ...]:
        """What was found, as it is compared."""
        if self.snippet is None:
            return ()
        text = self.snippet.text
        return tuple(dict.fromkeys(fold(text[a:b]) for a, b in self.snippet.places))


def item_of_hit(hit: SearchHit) -> HistoryItem:
    """A found title is the chat, a found message has its snippet."""
    if hit.message_hash is None:
        return HistoryItem(hit.chat)
    return HistoryItem(hit.chat, hit.message_hash, hit.role, hit.snippet, hit.is_on_branch)


def item_lines(
    item: HistoryItem, before: HistoryItem | None, glyphs: Glyphs, width: int, *, now: float
) -> list[Line]:
    """One or two rows; hits of the chat `before` do not repeat its title."""
    lines: list[Line] = []
    if item.snippet is None or before is None or before.chat.id != item.chat.id:
        lines.append(_title_line(item.chat, glyphs, width, now))
    if item.snippet is not None:
        lines.append(_snippet_line(item, item.snippet, glyphs, width))
    return lines


def _title_line(chat: Chat, glyphs: Glyphs, width: int, now: float) -> Line:
    note = Run(_note(chat, glyphs, now), Role.DIM)  # what is fainter is lost on the chosen row
    room = max(4, width - 3 - cells_of([note]))
    title = _cut(visible(chat.title) or NO_TITLE, room, glyphs)
    return Line((), (Run(" "), Run(set_cell_size(title, room), Role.USER, STRONG), Run(" "), note))


def _note(chat: Chat, glyphs: Glyphs, now: float) -> str:
    when = day_of(chat.updated_at, now)
    if chat.deleted_at is not None:
        days = max(0, round((chat.deleted_at + DELETED_KEPT_S - now) / DAY_S))
        return f"{when} {glyphs.dot} kept {grouped(days)} more {'day' if days == 1 else 'days'}"
    if chat.is_hidden:
        return f"answer of a compare {glyphs.dot} {when}"
    return f"archived {glyphs.dot} {when}" if chat.archived_at is not None else when


def day_of(time_s: float, now: float) -> str:
    """14:05 for today, else 3 Nov 2026."""
    then = datetime.fromtimestamp(time_s)
    if then.date() == datetime.fromtimestamp(now).date():
        return then.strftime("%H:%M")
    return f"{then.day} {then.strftime('%b %Y')}"


def _snippet_line(item: HistoryItem, snippet: Snippet, glyphs: Glyphs, width: int) -> Line:
    sign = Run(f"{_INDENT} {glyphs.prompt if item.role == 'user' else ' '} ", Role.ACCENT)
    branch = [] if item.is_on_branch else [Run("other branch  ", Role.WARNING)]
    room = max(4, width - cells_of([sign, *branch]) - 1)
    return Line((), (sign, *branch, *snippet_runs(snippet, glyphs, room)))


def snippet_runs(snippet: Snippet, glyphs: Glyphs, cells: int) -> list[Run]:
    """The snippet in so many cells, its first hit in view."""
    runs: list[Run] = []
    at = 0
    for start, end in snippet.places:
        runs.append(Run(visible(snippet.text[at:start]), Role.DIM))
        runs.append(Run(visible(snippet.text[start:end]), Role.ACCENT, STRONG))
        at = end
    runs.append(Run(visible(snippet.text[at:]), Role.DIM))
    if snippet.places:
        runs[0] = runs[0]._replace(text=_tail(runs[0].text, cells // 3, glyphs))
    return cut_runs(runs, cells, mark=glyphs.ellipsis)


def _tail(text: str, cells: int, glyphs: Glyphs) -> str:
    """The end of a text, in at most so many cells."""
    if cell_len(text) <= cells:
        return text
    kept = cells - cell_len(glyphs.ellipsis)
    while text and cell_len(text) > kept:
        text = text[max(1, (cell_len(text) - kept) // 2) :]
    return f"{glyphs.ellipsis}{text}"


def _cut(text: str, cells: int, glyphs: Glyphs) -> str:
    if cell_len(text) <= cells:
        return text
    mark = glyphs.ellipsis[: max(0, cells)]
    return shortened(text, cells, mark)
