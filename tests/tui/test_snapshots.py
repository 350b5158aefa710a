"""Every screen as text at the usual sizes: what a change of layout or wording does is seen here.

Started with LOCALPAGED_ACCEPT_SNAPSHOTS=1 the tests write the pictures anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localpaged.chat.service import ChatService
from localpaged.engine.events import ReadyEvent
from localpaged.engine.params import Request
from localpaged.store.store import Store
from localpaged.tui.glyphs import ASCII
from localpaged.tui.screens.blocks import BlocksScreen
from localpaged.tui.screens.context import ContextScreen
from localpaged.tui.screens.history import HistoryScreen
from localpaged.tui.screens.tokens import TokenScreen
from testkit.builders import ready_model
from testkit.comparing import comparing, finish
from testkit.fake_model import FakeChatModel
from testkit.past_chats import write_chat
from testkit.screens import SMALL, Stage, open_service, stage
from testkit.scripted_engine import Answer, ScriptedEngine
from testkit.snapshots import BOTH, Album, Clock, still

NARROW = (40, 16)
FOLDER = Path(__file__).with_name("snapshots")
QUESTION = "How does copy-on-write keep shared blocks safe?"
MARKDOWN = """A block that two chats share is **never** written to:

1. its reference count is raised, nothing is copied
2. the one that writes first takes a *free* block
3. the tail is copied and `refs` falls by one

```python
for block in sequence.table[:-1]:
    pool.share(block)  # refs + 1
```

| state  | refs | evictable |
|--------|-----:|-----------|
| held   |   1+ | no        |
| cached |    0 | yes       |
"""
REASONING = Answer(
    ("<think>", "\nThey ask ", "about blocks.", "</th", "ink>", "\n\n", "It counts ", "references.")
)


def pieces(text: str, size: int = 4) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]


@pytest.fixture(autouse=True)
def clock() -> Iterator[Clock]:
    with still() as clock:
        yield clock


@pytest.fixture
def album() -> Album:
    return Album(FOLDER)


def test_every_kept_picture_is_taken_by_a_test():
    source = Path(__file__).read_text(encoding="utf-8")
    for path in FOLDER.iterdir():
        name, _, _ = path.stem.rpartition("-")  # what stands behind it is the size
        names = (name, name.rpartition("-")[0])  # of a compare there are several
        assert any(f'"{name}"' in source for name in names), f"nothing takes {path.name}"


async def step(shown: Stage, clock: Clock, count: int) -> None:
    """Let the engine make steps of 10 ms."""
    for _ in range(count):
        clock.wait(0.01)
        await shown.step()


async def exchange(shown: Stage, clock: Clock, text: str) -> None:
    clock.wait(60.0)
    await shown.ask(text)
    await shown.answer()


async def leave(shown: Stage, *keys: str) -> None:
    await shown.press(*(keys or ("escape",)))
    await shown.until(lambda: shown.dialog is None)


def write_library() -> None:
    """Chats of last year."""
    write_chat(
        [("Which fruit keeps longest?", "Apples keep longest, in a cool cellar.")], title="Fruit"
    )
    write_chat(
        [("用户身份 means?", "It means the identity of a user."), ("And apples?", "苹果.")],
        title="用户身份 and fruit",
    )
    write_chat(
        [(f"Question {number}?", f"Answer {number}.") for number in range(3)],
        title="A chat with a title that is longer than any list of chats has cells for it",
    )


async def test_an_empty_chat_and_what_opens_over_it(album, clock):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await album.take(shown, "chat-empty", sizes=(*BOTH, NARROW))
            await shown.resize(*SMALL)
            await shown.write("/se")
            await album.take(shown, "slash-completion", sizes=(*BOTH, NARROW))
            shown.prompt.text = ""
            for key, name in (("ctrl+p", "palette"), ("f1", "help"), ("ctrl+o", "options")):
                await shown.press(key)
                assert shown.dialog is not None
                await album.take(shown, name)
                await leave(shown)
    album.check()


async def test_a_chat_that_is_answered_with_a_queued_message_and_forks(album, clock):
    engine = ScriptedEngine([pieces(MARKDOWN)])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await exchange(shown, clock, QUESTION)
            await album.take(shown, "chat-answered", sizes=(*BOTH, NARROW))
            await shown.resize(*SMALL)
            await shown.press("ctrl+f")
            await exchange(shown, clock, "And without forks?")
            clock.wait(60.0)
            await shown.press("ctrl+n")
            await shown.ask("Write a haiku about eviction.")
            await step(shown, clock, 40)
            await shown.say("Another one.")
            await shown.write("a draft")
            await album.take(shown, "chat-generating", sizes=(*BOTH, NARROW))
            await shown.resize(*SMALL)
            await shown.press("ctrl+q")
            await album.take(shown, "confirm-quit")
            await leave(shown)
            await shown.press("ctrl+s")
            await album.take(shown, "chooser")
            await leave(shown)
    album.check()


async def test_reading_a_chat_editing_renaming_and_finding(album, clock):
    engine = ScriptedEngine([pieces(MARKDOWN)])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await exchange(shown, clock, QUESTION)
            shown.transcript.focus()
            await album.take(shown, "chat-reading")
            await shown.press("e")
            await shown.write(" Be brief.")
            await album.take(shown, "chat-editing")
            await shown.press("enter")
            await shown.until(lambda: len(engine.submitted) == 2)
            await shown.answer()
            await album.take(shown, "chat-versions")
            await shown.say("/rename")
            assert shown.dialog is not None
            await album.take(shown, "rename")
            await leave(shown)
            shown.transcript.focus()
            await shown.press("slash")
            await shown.burst(*"refs")
            await album.take(shown, "find-dialog")
            await shown.press("enter")
            await album.take(shown, "find-found")
            await leave(shown)
            await shown.say("/why")
            await album.take(shown, "why")
            await leave(shown)
    album.check()


async def test_reasoning_is_folded_and_unfolded(album, clock):
    engine = ScriptedEngine([REASONING])
    model = ready_model(FakeChatModel(thinks=True))
    service = ChatService(store=Store.open(), engine=engine, model=model)
    try:
        async with stage(service, engine) as shown:
            await exchange(shown, clock, QUESTION)
            await album.take(shown, "reasoning-folded")
            await shown.press("ctrl+t")
            await album.take(shown, "reasoning-unfolded", sizes=(SMALL,))
    finally:
        service.close()
    album.check()


async def test_a_full_context_and_the_line_where_the_view_begins(album, clock):
    write_chat([(f"Question {number}. " * 6, "a" * 50) for number in range(3)], title="Long")
    ready = ReadyEvent("fake-model", "cpu", "float32", 600, 0.1)
    engine = ScriptedEngine([pieces("Enough of it. " * 4)], ready=ready)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("What did I ask you first? " * 9)
            await shown.answer()
            await shown.until(lambda: isinstance(shown.dialog, ContextScreen))
            await shown.settle()
            await album.take(shown, "context-dialog")
            await shown.press("down", "enter")
            await shown.until(lambda: len(engine.submitted) == 2)
            await shown.answer()
            shown.transcript.focus()
            await shown.press("g")
            await album.take(shown, "context-view-line")
    album.check()


async def test_the_history_with_hits(album, clock):
    write_library()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await album.take(shown, "chat-list")
            await shown.resize(*SMALL)
            for name, query in (("history", ""), ("history-hits", "apples")):
                await shown.press("f6")
                await shown.burst(*query)
                screen = shown.dialog
                assert isinstance(screen, HistoryScreen)
                await shown.until(lambda s=screen: s._is_up_to_date and not s._is_reading)
                await album.take(shown, name)
                await leave(shown, *(["escape", "escape"] if query else ["escape"]))
    album.check()


def answer_of(request: Request) -> list[str]:
    """Answers of one model differ in their middle by temperature, those of two in all."""
    own = f"At {request.sampling.temperature} it is "
    return pieces(f"{request.model or 'default'} says: {own}Rayleigh scattering, mostly.\n")


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("compare-2", "/compare t=0.2,0.9 seed=1 Why is the sky blue?"),
        ("compare-4", "/compare m=fake-model,other t=0.2,0.9 seed=1 Why is the sky blue?"),
    ],
)
async def test_answers_side_by_side_and_what_differs(name, command, album, clock):
    async with comparing(command, size=SMALL, script=answer_of) as (shown, screen):
        await step(shown, clock, 6)
        await album.take(shown, f"{name}-growing")
        await finish(shown, screen)
        await album.take(shown, name)
        await shown.press(*(["d"] if name == "compare-2" else ["d", "3", "d"]))
        await album.take(shown, f"{name}-diff")
        if name == "compare-2":
            await shown.press("escape", "f1")
            await album.take(shown, "compare-help")
    album.check()


def fill(service: ChatService, engine: ScriptedEngine) -> None:
    """Two chats with a common beginning of six blocks, and four blocks of their own each."""
    system = ("You are a careful librarian. " * 4)[:96]
    for title, text in (("Venice", "books of Venice "), ("Mainz", "Gutenberg lived ")):
        chat = service.new_chat(title=title)
        engine.remember(chat.id, tuple(map(ord, system + text * 4)))


async def look(shown: Stage, keys: tuple[str, ...] = ()) -> BlocksScreen:
    """Open the blocks screen, or press keys in it, and wait until it has seen memory."""
    await shown.press(*(keys or ("f3",)))
    screen = shown.app.screen
    assert isinstance(screen, BlocksScreen)
    before = shown.engine.num_inspections
    screen.look.look_soon()
    await shown.beat()
    await shown.until(lambda: shown.engine.num_inspections > before)
    await shown.beat()
    return screen


async def test_memory_as_map_and_as_tree(album, clock):
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        fill(service, engine)
        clock.wait(60.0)
        async with stage(service, engine) as shown:
            await look(shown)
            await shown.until_shown("tokens 0 to 15")
            await album.take(shown, "blocks-map")
            await shown.resize(*SMALL)
            await look(shown, ("m",))
            await album.take(shown, "blocks-refs", sizes=(SMALL,))
            await look(shown, ("m", "m", "m", "tab", "down"))
            await album.take(shown, "blocks-tree")
    album.check()


async def test_an_answer_token_by_token(album, clock):
    written = ("Paris", " is", " the", " cap", "ital", ".", "\n", "And", " so", " on")
    engine = ScriptedEngine(lambda request: written if request.prompt_logprobs is None else ())
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await exchange(shown, clock, "What is the capital of France?")
            shown.transcript.focus()
            await shown.press("t")
            assert isinstance(shown.dialog, TokenScreen)

            def is_measured() -> bool:
                engine.run_until_idle()
                shown.app.beat()
                return "measuring" not in shown.text

            await shown.until(is_measured)
            await album.take(shown, "tokens")
    album.check()


async def test_chat_and_blocks_in_ascii(album, clock):
    engine = ScriptedEngine([pieces(MARKDOWN)], total_blocks=64)
    with open_service(engine) as service:
        fill(service, engine)
        clock.wait(60.0)
        async with stage(service, engine, glyphs=ASCII) as shown:
            await exchange(shown, clock, QUESTION)
            await album.take(shown, "ascii-chat")
            await shown.resize(*SMALL)
            await look(shown)
            await shown.until_shown("tokens 0 to 15")
            await album.take(shown, "ascii-blocks")
    album.check()
