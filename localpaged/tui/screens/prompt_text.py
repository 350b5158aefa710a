"""The prompt as the model read it, on one page."""

from __future__ import annotations

from textual.content import Content

from localpaged.chat.prompt_text import PromptText
from localpaged.plain_text import visible
from localpaged.tui.figures import grouped
from localpaged.tui.markdown.line import STRONG, UNDERLINE, Role, Run
from localpaged.tui.paint import content_of
from localpaged.tui.screens.page_dialog import PageDialog

MOST_CHARS = 40_000
"""Of a longer prompt the middle is left out: the page is laid out as a whole."""


class PromptTextScreen(PageDialog[None]):
    """Shows a prompt literally, control tokens in another colour."""

    def __init__(self, prompt: PromptText) -> None:
        super().__init__(title_of(prompt), "The answer begins behind it. Esc closes.")
        self._prompt = prompt

    def page(self, cells: int) -> Content:
        """See PageDialog; Textual wraps it."""
        return content_of(prompt_runs(self._prompt))


def title_of(prompt: PromptText) -> str:
    """How long it is, and whether it is what was read."""
    tokens = "1 token" if prompt.num_tokens == 1 else f"{grouped(prompt.num_tokens)} tokens"
    cached = ""
    if prompt.is_as_read and prompt.cached_tokens is not None:
        cached = f", {grouped(prompt.cached_tokens)} of them from memory"
    how = "The prompt as it was read" if prompt.is_as_read else "The prompt as it would be read now"
    return f"{how}: {tokens}{cached}"


def prompt_runs(prompt: PromptText) -> list[Run]:
    """The text, what is too long in the middle left out and told."""
    runs: list[Run] = []
    total = sum(len(piece.text) for piece in prompt.pieces)
    half, at = MOST_CHARS // 2, 0
    for piece in prompt.pieces:
        head = piece.text[: max(0, half - at)]
        tail_from = max(len(head), total - half - at)
        tail = piece.text[tail_from:]
        role = Role.ACCENT if piece.is_control else Role.TEXT
        # without colours, too, what somebody typed is not taken for a control token
        marks = STRONG | UNDERLINE if piece.is_control else 0
        if head:
            runs.append(Run(visible(head, multiline=True), role, marks))
        if at <= total - half < at + len(piece.text) and total > MOST_CHARS:
            left_out = f"\n… {grouped(total - MOST_CHARS)} characters are left out here …\n"
            runs.append(Run(left_out, Role.FAINT))
        if tail:
            runs.append(Run(visible(tail, multiline=True), role, marks))
        at += len(piece.text)
    return runs
