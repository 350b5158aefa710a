"""What the blocks screen has done: pin, unpin, evict, go to a chat. It tells what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from localpaged.engine.inspection import Inspection, PinView
from localpaged.engine.params import BLOCK_SIZE_TOKENS
from localpaged.tui.figures import grouped
from localpaged.tui.memory.headlines import blocks_and_bytes, counted_blocks
from localpaged.tui.memory.loss import Loss, loss_text
from localpaged.tui.memory.tree_rows import TreeRow
from localpaged.tui.screens.confirm import ConfirmScreen
from localpaged.tui.screens.picker import Choice, PickerScreen

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp


class MemoryDeeds:
    """Asks the service and tells the user; `done` is called when memory has changed. UI thread."""

    def __init__(self, app: LocalPagedApp, done: Callable[[], None]) -> None:
        self._app = app
        self._memory = app.service.memory
        self._done = done

    def pin_or_unpin(self, row: TreeRow, model: str) -> None:
        """Pin a branch with all before it; one that is pinned, let go."""
        if not row.pins:
            pinned = self._memory.pin_branch(row.bottom.id, model)
            self._app.awaited.when_done(pinned, self._tell_pinned, self._app.tell_error)
            return
        for number, key in enumerate(row.pins):
            told = self._tell_unpinned if number == 0 else lambda view: None
            self._app.awaited.when_done(self._memory.unpin(key, model), told, self._app.tell_error)

    def evict(self, loss: Loss, seen: Inspection, *, model: str) -> None:
        """Evict what nobody uses of a branch and of all below it; asks when others lie below."""

        def told(count: int) -> None:
            if count:
                self._app.tell(f"Evicted {blocks_and_bytes(count, seen)}.")
            else:
                self._app.tell("Nothing to evict: what is in use or pinned stays.")
            self._done()

        def answered(is_yes: bool | None) -> None:
            if is_yes:
                evicted = self._memory.evict(loss.node_id, loss.offset, model)
                self._app.awaited.when_done(evicted, told, self._app.tell_error)

        if not loss.below_blocks:
            answered(True)
            return
        question, detail = "Evict this branch and all below it?", loss_text(loss, seen)
        self._app.push_screen(ConfirmScreen(question, detail, yes="Evict", no="Keep"), answered)

    def choose_chat(
        self,
        chats: Sequence[str],
        title_of: Callable[[str], str],
        go_to: Callable[[str], object],
    ) -> None:
        """Go to the chat, or to the one of several that the user chooses."""
        known = [chat for chat in chats if self._is_shown_somewhere(chat)]
        if not known:
            self._app.tell("No chat of the list uses this.")
        elif len(known) == 1:
            go_to(known[0])
        else:

            def chosen(chat: str | None) -> None:
                if chat is not None:
                    go_to(chat)

            choices = [Choice(chat, title_of(chat)) for chat in known]
            self._app.push_screen(PickerScreen(choices, prompt="Go to a chat"), chosen)

    def _is_shown_somewhere(self, chat: str) -> bool:
        """Whether a chat is in the list, or is an answer of a compare."""
        if self._app.workspace.find(chat) is not None:
            return True
        return self._app.service.compares.of_chat(chat) is not None

    def _tell_pinned(self, pin: PinView) -> None:
        tell_pinned(self._app, pin)
        self._done()

    def _tell_unpinned(self, pin: PinView) -> None:
        tell_unpinned(self._app, pin.num_held)
        self._done()


def tell_pinned(app: LocalPagedApp, pin: PinView) -> None:
    """Say what is pinned, and that it is for this run alone."""
    if not pin.num_blocks:
        app.tell(
            f"The prompt is shorter than one block of {BLOCK_SIZE_TOKENS} tokens: "
            "nothing is pinned."
        )
        return
    later = pin.num_blocks - pin.num_held
    rest = f", {grouped(later)} more as soon as they are computed" if later else ""
    app.tell(f"Pinned {counted_blocks(pin.num_held)}{rest}, until you unpin or quit.")


def tell_unpinned(app: LocalPagedApp, num_blocks: int) -> None:
    """Say what is not pinned any more."""
    app.tell(f"Unpinned: {counted_blocks(num_blocks)} can be evicted again.")
