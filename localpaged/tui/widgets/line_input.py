"""A one-line input whose text can always be drawn as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import Input

from localpaged.plain_text import visible

if TYPE_CHECKING:
    from textual import events


class LineInput(Input):
    """Takes the first line of a paste; control characters in it become visible marks."""

    def _on_paste(self, event: events.Paste) -> None:
        lines = event.text.splitlines()
        if lines:
            self.insert_text_at_cursor(visible(lines[0]))
        event.stop()
        event.prevent_default()
