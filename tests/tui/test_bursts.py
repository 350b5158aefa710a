"""Keys that arrive faster than the app takes them: in their order, none lost, none to another."""

from __future__ import annotations

import pytest

from localpaged.tui.screens.rename import RenameScreen
from localpaged.tui.session import Question
from localpaged.tui.theme import DARK
from testkit.screens import LARGE, open_service, stage
from testkit.scripted_engine import ScriptedEngine

LONG = tuple(f"word{n} " for n in range(400))


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ([*"helo", "backspace", *"lo"], "hello"),
        ([*"ab", "left", "left", "X"], "Xab"),
        ([*"abc", "ctrl+u", *"def"], "def"),
        ([*"abc", "home", "delete", *"x", "end", *"y"], "xbcy"),
        ([*"ab", "ctrl+j", *"cd", "up", "X"], "abX\ncd"),
    ],
)
async def test_editing_keys_act_between_the_letters_around_them(keys, text):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.burst(*keys)
            assert shown.prompt.text == text


async def test_what_is_typed_behind_enter_stays_in_the_prompt():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.burst(*"Say hi", "enter", *"and the next message")
            question = shown.app.workspace.current.entries[0]
            assert isinstance(question, Question)
            assert question.text == "Say hi"
            assert shown.prompt.text == "and the next message"


async def test_two_messages_in_one_burst_are_two_messages():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.burst(*"one", "enter", *"two", "enter", *"three")
            entries = shown.app.workspace.current.entries
            assert [e.text for e in entries if isinstance(e, Question)] == ["one", "two"]
            assert shown.prompt.text == "three"


async def test_a_new_chat_takes_only_what_is_typed_after_it_was_asked_for():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.burst(*"old", "ctrl+n", *"new")
            assert shown.prompt.text == "new"
            assert [s.draft.full for s in shown.app.workspace.sessions if s.draft.full][-1] == "old"
            await shown.burst(*"er", "ctrl+u", *"/new", "enter", *"third")
            assert shown.prompt.text == "third"


@pytest.mark.parametrize(
    ("keys", "title", "typed"),
    [
        (["ctrl+u", *"abc def", "enter"], "abc def", ""),
        (["ctrl+u", *"helo", "backspace", *"lo", "enter", *"more"], "hello", "more"),
        (["ctrl+u", "enter", *"hello"], "first", "hello"),
        ([*" x", "escape", *"hello"], "first", "hello"),
    ],
)
async def test_a_dialog_takes_its_keys_and_leaves_the_rest_to_the_prompt(keys, title, typed):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("first")
            await shown.answer()
            await shown.burst(*"/rename", "enter", *keys)
            assert shown.dialog is None
            assert shown.app.workspace.current.title == title
            assert shown.prompt.text == typed


async def test_a_dialog_keeps_what_is_typed_into_it():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("first")
            await shown.answer()
            shown.app.commands.run("rename")
            await shown.until(lambda: isinstance(shown.dialog, RenameScreen))
            await shown.burst("ctrl+u", *"abc def")
            assert shown.dialog is not None
            assert shown.dialog.query_one("LineInput").value == "abc def"


async def test_the_palette_is_used_in_one_burst():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.burst("ctrl+p", *"dark or", "enter", *"light", "enter", *"hello")
            assert shown.dialog is None
            assert shown.app.theme != DARK
            assert shown.prompt.text == "hello"


async def test_a_question_of_the_app_is_answered_safely_in_a_burst():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.step(3)
            await shown.burst("ctrl+q", "enter", *"on")
            assert shown.dialog is None
            assert not shown.app._exit
            assert shown.prompt.text == "on"


async def test_text_that_cannot_be_sent_stands_before_what_is_typed_behind_it():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.burst(*"/hlep", "enter")
            assert shown.prompt.text == "/hlep"
            assert engine.submitted == []


async def test_a_chat_is_renamed_from_the_list_in_one_burst():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("first")
            await shown.answer()
            keys = ["tab", "tab", "r", "ctrl+u", *"named", "enter", "tab", *"and on"]
            await shown.burst(*keys)
            assert shown.app.workspace.current.title == "named"
            assert shown.prompt.text == "and on"


async def test_answers_that_begin_while_their_panes_are_put_together_are_drawn():
    engine = ScriptedEngine([["word "] * 20])
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            shown.app.commands.told["compare"]("n=2 tell")
            engine.wait_submitted(2)
            engine.step()
            engine.step()
            shown.app.beat()  # nothing has been mounted yet
            await shown.settle()
            await shown.step(2)
            await shown.until_shown("word word")
