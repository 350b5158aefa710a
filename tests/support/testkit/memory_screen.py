"""Two chats in memory that have a beginning in common, and the blocks screen over them."""

from __future__ import annotations

from localpaged.chat.service import ChatService
from localpaged.tui.screens.blocks import BlocksScreen
from testkit.screens import Stage
from testkit.scripted_engine import ScriptedEngine

SYSTEM = tuple(map(ord, "You are a careful librarian. " * 4))[:96]


def ids(text: str, length: int = 64) -> tuple[int, ...]:
    """The tokens of a text that is repeated up to `length` of them."""
    return tuple(map(ord, (text * length)[:length]))


def fill(service: ChatService, engine: ScriptedEngine) -> tuple[str, str]:
    """Two chats with a common beginning of six blocks; what is theirs alone is four blocks."""
    first = service.new_chat(title="Venice").id
    second = service.new_chat(title="Mainz").id
    engine.remember(first, (*SYSTEM, *ids("books of Venice ")))
    engine.remember(second, (*SYSTEM, *ids("Gutenberg lived ")))
    return first, second


async def open_blocks(shown: Stage) -> BlocksScreen:
    """Open the blocks screen, which has looked once then."""
    await shown.press("f3")
    await shown.until(lambda: isinstance(shown.app.screen, BlocksScreen))
    await look(shown)
    assert isinstance(shown.app.screen, BlocksScreen)
    return shown.app.screen


async def look(shown: Stage) -> None:
    """Let the screen see memory as it is now."""
    before = shown.engine.num_inspections
    screen = shown.app.screen
    assert isinstance(screen, BlocksScreen)
    screen.look.look_soon()
    await shown.beat()
    await shown.until(lambda: shown.engine.num_inspections > before)
    await shown.beat()
