"""Dialogs that are one page of text: how much of it they show at once."""

from __future__ import annotations

from typing import Any

from textual.containers import VerticalScroll
from textual.screen import ModalScreen

DIALOG_PERCENT = 90
"""How much of the screen's height a dialog may have, as the styles say."""
PADDING_ROWS = 2


def fit_page(screen: ModalScreen[Any]) -> None:
    """Have the page scroll where not all of it fits, so that the line below it stays in view."""
    _fit(screen)
    # how many rows title and hint need is known when they are laid out
    screen.call_after_refresh(_fit, screen)


def _fit(screen: ModalScreen[Any]) -> None:
    around = screen.query(".dialog-title, .dialog-hint")
    rows = sum(max(1, part.size.height) + part.styles.margin.height for part in around)
    most = screen.app.size.height * DIALOG_PERCENT // 100 - PADDING_ROWS - rows
    screen.query_one(VerticalScroll).styles.max_height = max(2, most)
