"""What is still held of parts of the screen that are gone, and how it is let go.

Found by counting objects over hundreds of dialogs: each left two to five thousand, most of them the
rows it had painted.
"""

from __future__ import annotations

import gc
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from textual._styles_cache import StylesCache
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.style import Style

from localpaged.tui.driver import OwnDriver

if TYPE_CHECKING:
    from textual.await_complete import AwaitComplete
    from textual.color import Color
    from textual.driver import Driver


MOST_LEFT = 16
"""Closed screens that are left while something moves: each has some 0.6 MB."""

Result = TypeVar("Result")


def keep_styles_by_colour() -> None:
    """Have Textual remember a part's two ground styles by their colours alone.

    It remembers them by the part's painted rows as well, and so the rows of the last 1,024 parts.
    """
    if hasattr(StylesCache.get_inner_outer, "cache_info"):
        StylesCache.get_inner_outer = _grounds  # type: ignore[method-assign, assignment]


def _grounds(cache: StylesCache, base_background: Color, background: Color) -> tuple[Style, Style]:
    return _grounds_of(base_background, background)


@lru_cache(1_024)
def _grounds_of(base_background: Color, background: Color) -> tuple[Style, Style]:
    return Style(background=base_background + background), Style(background=base_background)


class TidyApp(App[Result]):
    """An app of ours: what its closed screens leave is let go. UI thread only."""

    def __init__(self) -> None:
        super().__init__()
        keep_styles_by_colour()
        self._num_left = 0

    def get_driver_class(self) -> type[Driver]:
        """The driver of a terminal is ours; one that the environment names stays."""
        usual = super().get_driver_class()
        return OwnDriver if usual is LinuxDriver else usual

    def pop_screen(self) -> AwaitComplete:
        """Close the uppermost screen."""
        self._num_left += 1
        return super().pop_screen()

    def tidy_up(self, *, is_moving: bool) -> None:
        """Let go of what closed screens left, if nothing moves that would have to wait for it.

        What moves for long waits once for many of them.
        """
        if self._num_left < (MOST_LEFT if is_moving else 1):
            return
        self._num_left = 0
        # text areas watch the app, and are held until the next theme
        for watchers in getattr(self, "__watchers", {}).values():
            watchers[:] = [each for each in watchers if not each[0]._closing]
        if not self.is_headless:
            gc.collect()
