"""Dialogs that are one page of text: how much of it they show at once."""

from __future__ import annotations

from typing import Any

from textual.containers import VerticalScroll
from textual.screen import ModalScreen

DIALOG_PERCENT = 90
"""How much of the screen's height a dialog may have, as the styles say."""
ROWS_AROUND = 6
"""Title, hint, and the space around them."""


def fit_page(screen: ModalScreen[Any]) -> None:
    """Have the page scroll where not all of it fits, so that the line below it stays in view."""
    most = screen.app.size.height * DIALOG_PERCENT // 100 - ROWS_AROUND
    screen.query_one(VerticalScroll).styles.max_height = max(2, most)
