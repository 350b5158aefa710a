"""Answers of a compare that were not kept are found, named and opened as what they are."""

from __future__ import annotations

from localpaged.store.scope import ChatScope
from localpaged.tui.screens.blocks import BlocksScreen
from localpaged.tui.screens.compare import CompareScreen
from localpaged.tui.screens.history import HistoryScreen
from testkit.comparing import comparing, finish, texts
from testkit.screens import Stage
from testkit.sizes import SIZES

HOSTILE = "why\x1b]52;c;aGk=\x07 [b]sky\u202e?"


async def search(shown: Stage, text: str) -> HistoryScreen:
    await shown.press("f6")
    screen = shown.app.screen
    assert isinstance(screen, HistoryScreen)
    await shown.burst(*text)
    screen._read()
    await shown.until(lambda: screen._is_up_to_date and not screen._is_reading)
    await shown.settle()
    return screen


@SIZES
async def test_an_answer_that_was_not_kept_is_found_and_opened_in_its_compare(size):
    async with comparing("/compare n=3 seed=1 Sky?", size=size) as (shown, screen):
        await finish(shown, screen)
        answers = texts(screen)
        await shown.press("q")
        await search(shown, "own2")
        assert "answer of a compare" in shown.text and "1 hit" in shown.text
        await shown.press("tab", "d")
        assert "This is an answer of a compare" in shown.text
        await shown.press("enter")
        again = shown.app.screen
        assert isinstance(again, CompareScreen)
        assert again.model.current.last is not None
        assert again.model.current.last.text == answers[1]


async def test_the_prompt_of_a_compare_is_found_once_and_where_it_is_kept():
    async with comparing("/compare n=3 Sky?") as (shown, screen):
        await finish(shown, screen)
        found = shown.service.history.search("Sky").hits
        assert [(hit.role, hit.chat.is_hidden) for hit in found] == [("user", True)]
        await shown.press("2", "k", "q")
        kept = screen.model.panes[1].chat.id
        found = shown.service.history.search("Sky").hits
        assert {hit.chat.id for hit in found} == {kept}
        for scope in (ChatScope.ARCHIVED, ChatScope.DELETED):
            assert not shown.service.history.search("own", scope=scope).hits


@SIZES
async def test_the_blocks_screen_names_answers_by_their_compare_and_goes_there(size):
    async with comparing(f"/compare n=2 {HOSTILE}", size=size) as (shown, screen):
        await finish(shown, screen)
        chat = screen.model.panes[1].chat
        shown.engine.remember(chat.id, tuple(range(64)))
        await shown.press("q", "f3")
        blocks = shown.app.screen
        assert isinstance(blocks, BlocksScreen)
        blocks.look.look_soon()
        await shown.beat()
        await shown.until(lambda: blocks.look.seen.num_blocks > 0)
        assert blocks.look.title_of(chat.id) == f"compare: {chat.title}"
        assert blocks.look.title_of("nobody") == "a chat that is not listed"
        blocks.dismiss(chat.id)
        await shown.until(lambda: isinstance(shown.app.screen, CompareScreen))
        again = shown.app.screen
        assert isinstance(again, CompareScreen)
        assert again.model.current.chat.id == chat.id


async def test_a_chat_that_is_not_listed_is_named_with_the_reason():
    async with comparing("/compare n=2 Sky?", before="first") as (shown, _):
        (listed,) = shown.service.chats()
        await shown.press("q", "ctrl+n")
        await shown.answer()
        shown.service.history.archive(listed.id)
        shown.app.workspace.refresh()
        await shown.press("f3")
        blocks = shown.app.screen
        assert isinstance(blocks, BlocksScreen)
        assert blocks.look.title_of(listed.id) == f"archived: {listed.title}"
