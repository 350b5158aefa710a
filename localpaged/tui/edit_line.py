"""The line above the prompt while a message is edited: what it will do, how to leave it."""

from __future__ import annotations

from localpaged.tui.figures import grouped
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.keys import key_of
from localpaged.tui.markdown.line import STRONG, Role, Run
from localpaged.tui.paint import cells_of
from localpaged.tui.session import Answer, SessionModel


def edit_runs(session: SessionModel, glyphs: Glyphs, cells: int) -> list[Run]:
    """Return the line in `cells` cells; nothing when no message is edited."""
    editing = session.editing
    if editing is None:
        return []
    reuse = _reuse(session, editing.entry)
    ways = f"{key_of('send')} asks it as a new version", f"{key_of('stop')} leaves it"
    lead = [Run("editing a message", Role.ACCENT, STRONG)]
    for parts in ((reuse, *ways), ways, ways[1:]):
        runs = list(lead)
        for part in filter(None, parts):
            runs += [Run(f" {glyphs.dot} ", Role.FAINT), Run(part, Role.DIM)]
        if cells_of(runs) <= cells:
            return runs
    return lead


def _reuse(session: SessionModel, entry: int) -> str:
    """How many tokens come before the message, and need not be read again."""
    before = _tokens_at(session, entry)
    total = _tokens_at(session, len(session.entries))
    return f"reuses {grouped(before)} of {grouped(total)} tokens" if before and total else ""


def _tokens_at(session: SessionModel, end: int) -> int:
    """Tokens up to the last answer before `end`; 0 when that is not known."""
    for found in reversed(session.entries[:end]):
        if isinstance(found, Answer):
            usage = found.usage
            return 0 if usage is None else usage.prompt_tokens + usage.completion_tokens
    return 0
