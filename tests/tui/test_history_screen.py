"""The history screen: searching as one types, opening at the hit, tidying up."""

from __future__ import annotations

import threading

from localpaged.plain_text import visible
from localpaged.store.scope import ChatScope
from localpaged.store.store import Store
from localpaged.store.tree import make_message
from localpaged.store.writes import Write, change_chat
from localpaged.tui.screens.history import HistoryScreen
from localpaged.tui.screens.picker import PickerScreen
from localpaged.tui.screens.rename import RenameScreen
from testkit.past_chats import write_chat
from testkit.screens import LARGE, SMALL, Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

HOSTILE = "A\x1b]52;c;SGVsbG8=\x07\x1b[2J\u202e\u200b [red]x[/] [@click=app.quit]y[/] needle"


def write_some_chats() -> None:
    write_chat([("about apples", "An apple is a fruit.")], title="Fruit")
    write_chat([("about 用户身份", "identity of users")], title="Users")
    write_chat([(f"question {n}", f"answer {n}") for n in range(40)], title="Long")


def history_of(shown: Stage) -> HistoryScreen:
    assert isinstance(shown.dialog, HistoryScreen)
    return shown.dialog


async def open_history(shown: Stage, query: str = "") -> None:
    await shown.press("f6")
    if query:
        await shown.burst(*query)
    await read(shown)


async def read(shown: Stage) -> None:
    """Wait until the list is that of what was asked for last."""
    screen = history_of(shown)
    screen._read()
    await shown.until(lambda: screen._is_up_to_date and not screen._is_reading)
    await shown.settle()


@SIZES
async def test_every_chat_is_listed_and_opened(size):
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await open_history(shown)
            assert [title in shown.text for title in ("Fruit", "Users", "Long")] == [True] * 3
            assert "3 chats" in shown.text
            await shown.press("down", "enter")
            assert shown.dialog is None
            assert shown.app.workspace.current.title == "Users"


@SIZES
async def test_typing_finds_texts_and_enter_opens_the_chat_at_the_hit(size):
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await open_history(shown, "question 17")
            assert "question 17" in shown.text
            assert "Long" in shown.text
            await shown.press("enter")
            assert shown.app.workspace.current.title == "Long"
            await shown.until_shown("question 17")
            assert not shown.transcript.is_following
            assert shown.app.focused is shown.transcript
            found = shown.transcript.found
            assert found is not None
            assert shown.app.workspace.current.entries[found.entry].text == "question 17"


async def test_enter_right_after_typing_opens_what_was_typed():
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.press("f6")
            await shown.burst(*"apples", "enter")
            await shown.until(lambda: shown.dialog is None)
            assert shown.app.workspace.current.title == "Fruit"


async def test_the_slash_command_searches_at_once():
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/search apples")
            await read(shown)
            assert "about apples" in shown.text
            await shown.burst("ctrl+u", *"身份")
            await read(shown)
            assert "about 用户身份" in shown.text
            await shown.press("z")
            await read(shown)
            assert "Nothing found" in shown.text
            await shown.press("enter")
            assert isinstance(shown.dialog, HistoryScreen)
            await shown.press("escape")
            assert shown.prompt.text == ""


async def test_the_chat_switcher_offers_a_search_for_what_is_in_no_title():
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.burst("ctrl+s", *"identity")
            assert isinstance(shown.dialog, PickerScreen)
            assert "Search all texts for “identity”" in shown.text
            await shown.press("enter")
            await read(shown)
            assert "identity of users" in shown.text


async def test_chats_are_archived_filtered_and_taken_out_again():
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await open_history(shown, "apples")
            await shown.press("tab", "a")
            await read(shown)
            assert "archived" in shown.text
            assert [s.title for s in shown.app.workspace.sessions] == ["Long", "Users"]
            assert "a unarchive" in shown.text
            await shown.press("f")
            await read(shown)
            assert "1 hit" in shown.text
            assert "unarchive" in shown.text
            await shown.press("a")
            await read(shown)
            assert "Nothing found" in shown.text
            assert len(shown.app.workspace.sessions) == 3


async def test_a_deleted_chat_can_be_found_and_restored():
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await open_history(shown, "apples")
            await shown.press("tab", "d")
            await read(shown)
            assert "Nothing found" in shown.text
            await shown.press("ctrl+f", "ctrl+f")
            await read(shown)
            assert "kept 30 more days" in shown.text
            assert "restore" in shown.text
            await shown.press("a")
            await shown.until_shown("restore it first")
            await shown.press("d")
            await read(shown)
            assert "Nothing found" in shown.text
            assert len(service.chats()) == 3


async def test_opening_a_deleted_chat_restores_it():
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        service.delete(service.chats()[0].id)
        async with stage(service, engine) as shown:
            await open_history(shown)
            await shown.press("ctrl+f", "ctrl+f")
            await read(shown)
            await shown.press("enter")
            assert shown.app.workspace.current.title == "Long"
            assert len(service.chats()) == 3


async def test_deleting_the_chat_that_is_shown_shows_its_neighbour():
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            assert shown.app.workspace.current.title == "Long"
            await open_history(shown)
            await shown.press("tab", "d", "escape")
            assert shown.app.workspace.current.title == "Users"


async def test_a_chat_is_renamed_in_the_list():
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await open_history(shown)
            await shown.press("tab", "r")
            assert isinstance(shown.dialog, RenameScreen)
            await shown.burst("ctrl+a", "ctrl+k", *"Short", "enter")
            await read(shown)
            assert "Short" in shown.text
            assert service.chats()[0].title == "Short"


async def test_archiving_in_the_list_of_chats_and_by_name():
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            shown.sidebar.focus()
            await shown.press("a")
            assert shown.app.workspace.current.title == "Users"
            await shown.say("/archive")
            assert [c.title for c in service.chats()] == ["Fruit"]
            assert len(service.history.chats(ChatScope.ARCHIVED)) == 2
            await open_history(shown, "identity")
            await shown.press("enter")
            assert shown.app.workspace.current.title == "Users"
            assert len(service.chats()) == 1
            # writing in it lists it again
            await shown.ask("more")
            await shown.answer()
            assert [s.title for s in shown.app.workspace.sessions] == ["Users", "Fruit"]


async def test_a_hit_on_another_branch_is_led_to():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("old words")
            await shown.answer()
            (chat,) = service.chats()
            question = service.transcript(chat.id)[0]
            service.edit(chat.id, question.key, "new words")
            await shown.until(lambda: len(engine.submitted) == 2)
            engine.run_until_idle()
            await shown.until(lambda: "new words" in str(service.transcript(chat.id)[0].message))
            await open_history(shown, "old words")
            await shown.until_shown("other branch")
            await shown.press("enter")
            await shown.until_shown("❯ old words")


@SIZES
async def test_hostile_text_is_literal(size):
    write_chat([(HOSTILE, HOSTILE)], title=HOSTILE)
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await open_history(shown, "needle")
            assert "[red]x[/]" in shown.text
            assert visible(shown.text, multiline=True) == shown.text
            await shown.press("tab", "a")
            await read(shown)
            assert visible(shown.text, multiline=True) == shown.text


async def test_a_resize_keeps_the_list():
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await open_history(shown, "n")
            await shown.resize(*SMALL)
            assert "answer" in shown.text
            assert "The best 60 hits" in shown.text


async def test_a_hit_that_another_program_wrote_since_is_shown():
    chat_id = write_chat([("question", "answer")], title="Fruit")
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            elsewhere = Store.open()
            tip = elsewhere.chat(chat_id).tip_hash
            asked = make_message(tip, "user", "needle")
            change = change_chat(chat_id, tip_hash=asked.hash)
            elsewhere.submit(Write(messages=(asked,), chat_changes=(change,))).result(10)
            elsewhere.close()
            await open_history(shown, "needle")
            await shown.press("enter")
            await shown.until_shown("❯ needle")
            assert shown.transcript.found is not None


async def test_a_click_opens_what_is_under_it():
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await open_history(shown)
            row = next(y for y, line in enumerate(shown.text.split("\n")) if "Fruit" in line)
            await shown.pilot.click(offset=(5, row))
            await shown.until(lambda: shown.dialog is None)
            assert shown.app.workspace.current.title == "Fruit"


async def test_of_very_many_chats_the_latest_are_listed_and_all_are_found(monkeypatch):
    monkeypatch.setattr("localpaged.tui.screens.history.MAX_CHATS", 2)
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await open_history(shown)
            assert "The latest 2 chats; searching finds the others" in shown.text
            await shown.burst(*"users")
            await read(shown)
            assert "Users" in shown.text


async def test_a_search_does_not_hold_up_the_screen(monkeypatch):
    write_some_chats()
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await open_history(shown)
            may_end = threading.Event()
            search = service.history.search

            def slow(query, *, scope):
                may_end.wait(10)
                return search(query, scope=scope)

            monkeypatch.setattr(service.history, "search", slow)
            await shown.burst(*"apples")
            history_of(shown)._read()
            await shown.press("backspace", "s", "down")
            assert not history_of(shown)._is_up_to_date
            may_end.set()
            await read(shown)
            assert "about apples" in shown.text
