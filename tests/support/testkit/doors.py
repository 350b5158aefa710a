"""How each screen and dialog of the chat is opened, and how one gets back from wherever one is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from localpaged.tui.screens.confirm import ConfirmScreen

if TYPE_CHECKING:
    from testkit.screens import Stage

Door = Callable[["Stage"], Awaitable[None]]

MOST_STEPS_BACK = 8


def _key(*keys: str) -> Door:
    async def open_it(shown: Stage) -> None:
        await shown.press(*keys)

    return open_it


def _action(action_id: str) -> Door:
    async def open_it(shown: Stage) -> None:
        shown.app.commands.run(action_id)
        await shown.settle()

    return open_it


async def _compare(shown: Stage) -> None:
    await shown.press("ctrl+n")  # beside one that is being answered there is none
    before = len(shown.engine.submitted)
    shown.app.commands.told["compare"]("n=3 tell")
    await shown.until(lambda: len(shown.engine.submitted) >= before + 3)
    await shown.settle()


async def _compare_diff(shown: Stage) -> None:
    await _compare(shown)
    await shown.step(5)
    await shown.press("d")


async def _rename(shown: Stage) -> None:
    shown.app.commands.chats.rename(shown.app.workspace.current)
    await shown.settle()


async def _confirm(shown: Stage) -> None:
    shown.app.push_screen(ConfirmScreen("Really?", "It cannot be undone.", yes="Yes", no="No"))
    await shown.settle()


DOORS: dict[str, Door] = {
    "help": _key("f1"),
    "palette": _key("ctrl+p"),
    "options": _key("ctrl+o"),
    "chats": _key("ctrl+s"),
    "blocks": _key("f3"),
    "stats": _key("f4"),
    "settings": _key("f2"),
    "history": _key("f6"),
    "find": _action("find"),
    "why": _action("why"),
    "context": _action("context"),
    "tokens": _action("tokens"),
    "prompt": _action("prompt_text"),
    "theme": _action("theme"),
    "attach": _action("attach"),
    "rename": _rename,
    "confirm": _confirm,
    "compare": _compare,
    "diff": _compare_diff,
}


async def go_back(shown: Stage) -> None:
    """Leave whatever lies over the chat, with the key that does."""
    for _ in range(MOST_STEPS_BACK):
        if shown.dialog is None:
            return
        await shown.press("escape")
        await shown.beat()
    raise AssertionError(f"{shown.dialog} does not close")
