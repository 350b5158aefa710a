"""What is told of the token at the cursor: how likely it was, and what else was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged.chat.token_view import SURPRISING_PROBABILITY, Candidate, TokenView, ViewedToken
from localpaged.plain_text import visible
from localpaged.tui.figures import grouped
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.markdown.line import STRONG, Role, Run
from localpaged.tui.transcript.status import reading_runs

if TYPE_CHECKING:
    from localpaged.engine.events import PrefillEvent

BAR_CELLS = 24
LIKELY, UNLIKELY = 0.5, 0.25


def role_of(token: ViewedToken) -> Role:
    """The colour of a token by how surprising it was."""
    if not token.is_scored:
        return Role.FAINT
    if token.probability >= LIKELY:
        return Role.TEXT
    if token.probability >= UNLIKELY:
        return Role.ACCENT
    return Role.WARNING if token.probability >= SURPRISING_PROBABILITY else Role.ERROR


def measuring_runs(read: PrefillEvent | None, glyphs: Glyphs, frame: int) -> list[Run]:
    """The top line while the answer is read once more: how far that is."""
    runs = reading_runs("measuring the answer", read, glyphs, frame)
    return [Run("Tokens  ", Role.ACCENT, STRONG), *runs]


def title_runs(view: TokenView) -> tuple[list[Run], list[Run]]:
    """The top line: what is looked at, and what measuring it cost."""
    left = [Run("Tokens", Role.ACCENT, STRONG)]
    left += [Run(f"  {visible(view.model)}", Role.TEXT)]
    if not view.is_exact:
        left.append(Run("  cut anew from the text: its own were not kept", Role.WARNING))
    cost = f"{grouped(view.cached_tokens)} cached + {grouped(view.new_tokens)} read again"
    return left, [Run(cost, Role.FAINT)]


def head_runs(view: TokenView, cursor: int, glyphs: Glyphs) -> list[Run]:
    """The line above the candidates: the token at the cursor."""
    token = view.tokens[cursor]
    dot = Run(f" {glyphs.dot} ", Role.FAINT)
    runs = [
        Run(f"{grouped(cursor + 1)} of {grouped(len(view.tokens))}", Role.DIM),
        dot,
        Run(shown(token.label, glyphs), Role.USER, STRONG),
        dot,
        Run(f"id {token.token_id}", Role.FAINT),
    ]
    if not token.is_scored:
        return [*runs, dot, Run("beyond the context, not measured", Role.WARNING)]
    share = Run(percent_of(token.probability), role_of(token))
    return [*runs, dot, share, dot, Run(f"{token.bits:.1f} bits of surprise", Role.DIM)]


def candidate_runs(
    candidate: Candidate, *, is_chosen: bool, is_marked: bool, glyphs: Glyphs
) -> list[Run]:
    """One row: a mark for the cursor and for what was written, the share, a bar, the token."""
    bar = round(candidate.probability * BAR_CELLS)
    role = Role.SUCCESS if is_chosen else Role.ACCENT
    return [
        Run(f"{glyphs.current if is_marked else ' '} ", Role.ACCENT),
        Run(f"{percent_of(candidate.probability):>7}  ", Role.TEXT if is_marked else Role.DIM),
        Run(glyphs.bar_held * bar, role),
        Run(glyphs.bar_free * (BAR_CELLS - bar), Role.FAINT),
        Run("  "),
        Run(shown(candidate.label, glyphs), Role.USER if is_marked else Role.TEXT),
        Run(f"  {glyphs.stopped} written" if is_chosen else "", Role.SUCCESS),
    ]


def shown(label: str, glyphs: Glyphs) -> str:
    """A token alone, its spaces and line ends as signs."""
    safe = visible(label, multiline=True).replace("\t", "    ")
    return safe.replace(" ", glyphs.space).replace("\n", glyphs.line_end) or "(nothing)"


def percent_of(probability: float) -> str:
    """0.6214 -> 62.1 %; what is very small keeps two digits."""
    share = 100 * probability
    if share >= 0.1:
        return f"{share:.1f} %"
    return f"{share:.2g} %" if share > 0 else "0 %"
