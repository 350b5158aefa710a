"""Slash commands while they are typed: which are meant, and keys that finish them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.offers import PATH, Offer, command_offers, matching, path_offers
from localpaged.tui.workers import begin

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen


class Completion(CommandGroup):
    """Offers commands and paths over the prompt, and takes the keys that choose. UI thread only.

    Invariant: `_offered` is what is shown; `_marked` indexes it, or is None when nothing of it can
    be taken.
    """

    def __init__(self, app: LocalPagedApp, screen: ChatScreen) -> None:
        super().__init__(app, screen)
        self._offered: Sequence[Offer] = ()
        self._marked: int | None = None
        self._has_moved = False
        self._is_closed = False
        self._prompt.completer = self.take_key

    def refresh(self) -> None:
        """The prompt's text changed: offer what it may become."""
        typed = self._prompt.text
        if not typed.startswith("/"):
            self._is_closed = False
        actions = () if self._is_closed else matching(typed)
        offered = command_offers(actions)
        if offered != self._offered:
            self._has_moved = False
        is_name = " " not in typed
        marked = (self._marked or 0) if self._has_moved else 0
        self._show(offered, marked if offered and is_name else None)
        if actions and not is_name and actions[0].argument == PATH:
            work = partial(self._offer_paths, typed)
            begin(self._app, work, name="paths", group="paths", exclusive=True)

    def close(self) -> bool:
        """Offer nothing for what is typed now; return whether something was offered."""
        was_open = bool(self._offered)
        self._is_closed = was_open
        self._show((), None)
        return was_open

    def take_key(self, key: str) -> bool:
        """Use a key of the prompt's; False when it means there what it always means."""
        marked = self._marked
        if marked is None or not self._prompt.selection.is_empty:
            return False
        if key in ("up", "down"):
            self._has_moved = True
            step = 1 if key == "down" else -1
            self._show(self._offered, (marked + step) % len(self._offered))
            return True
        offer = self._offered[marked]
        if key == "tab" or (key == "enter" and self._is_unfinished(offer)):
            self.complete(offer)
            return True
        return False

    def complete(self, offer: Offer) -> None:
        """Write all of it, ready for what may stand behind it."""
        self._prompt.text = offer.text
        self._prompt.move_cursor(self._prompt.document.end)
        self._screen.set_focus(self._prompt)

    def _is_unfinished(self, offer: Offer) -> bool:
        """Whether Enter means the marked row: of paths only when the mark was moved to it."""
        typed = self._prompt.text
        return self._has_moved if " " in typed else typed != offer.text.rstrip()

    async def _offer_paths(self, typed: str) -> None:
        command, _, written = typed.partition(" ")
        offered = await asyncio.to_thread(path_offers, command, written)
        is_whole = [offer.text for offer in offered] == [typed]
        if offered and not is_whole and self._prompt.text == typed and not self._is_closed:
            self._show(offered, 0)

    def _show(self, offered: Sequence[Offer], marked: int | None) -> None:
        self._offered, self._marked = offered, marked
        self._screen.suggestions.show(offered, marked)
