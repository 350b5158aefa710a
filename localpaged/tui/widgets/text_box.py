"""An input of several lines whose text can always be drawn as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widgets import TextArea

from localpaged.plain_text import visible

if TYPE_CHECKING:
    from rich.text import Text
    from textual.geometry import Region
    from textual.strip import Strip
    from textual.widgets.text_area import TextAreaTheme

_STRANGE = "\ufffd"


class TextBox(TextArea):
    """Keeps the text as it is; what would act on the terminal is drawn as marks. UI thread only.

    Invariant: `_styled` is the theme that has the styles of the parts as they are, or None.
    """

    _styled: TextAreaTheme | None = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint rows; the parts' styles are looked up when they may be others.

        Textual looks them up for each picture, and a cursor that blinks is two of them a second.
        """
        if self._styled is self._theme:
            return super(TextArea, self).render_lines(crop)
        self._styled = self._theme
        return super().render_lines(crop)

    def notify_style_update(self) -> None:
        """The theme or a style changed."""
        self._styled = None
        super().notify_style_update()

    def on_resize(self) -> None:
        """The text is wrapped elsewhere: its cursor stays in view, and blinks where it is now."""
        self.refresh()
        self.call_after_refresh(self.reveal_cursor)

    def reveal_cursor(self) -> None:
        """Have the cursor in view, and the terminal's own where it is."""
        self.scroll_cursor_visible()
        if self.has_focus:
            # where the terminal has its own, at which an input method opens
            self.app.cursor_position = self.cursor_screen_offset

    def get_line(self, line_index: int) -> Text:
        """The line as it is drawn: nothing in it acts on the terminal."""
        line = super().get_line(line_index)
        if not line.plain.isascii() or not line.plain.isprintable():
            # one cell for one character: the widget's own arithmetic must stay true
            line.plain = "".join(
                c if visible(c, multiline=True) == c else _STRANGE for c in line.plain
            )
        return line
