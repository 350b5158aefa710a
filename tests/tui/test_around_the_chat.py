"""Around the chat: palette, help, quitting, the lines that tell of engine and history."""

from __future__ import annotations

import pytest

from localpaged.chat.events import SavingFailed, SavingRecovered
from localpaged.errors import DiskFull
from localpaged.tui.screens.confirm import ConfirmScreen
from localpaged.tui.screens.help import HelpScreen
from localpaged.tui.screens.picker import PickerScreen
from testkit.screens import LARGE, SMALL, last_text, open_service, stage
from testkit.scripted_engine import ScriptedEngine

SIZES = pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "140x40"])
LONG = tuple(f"word{n} " for n in range(400))


@SIZES
async def test_the_pool_is_shown_live(size):
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("x" * 200)
            await shown.step(2)
            assert "KV █" in shown.text
            assert ("13 active" in shown.text) is (size == LARGE)


async def test_the_palette_runs_commands():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            theme = shown.app.theme
            await shown.press("ctrl+p")
            assert isinstance(shown.dialog, PickerScreen)
            await shown.press(*"dark", "enter")
            await shown.press(*"light", "enter")
            assert shown.app.theme != theme


async def test_help_opens_and_closes():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.press("f1")
            assert isinstance(shown.dialog, HelpScreen)
            assert "Keys and commands" in shown.text
            assert "Every command also works as /name" in shown.text
            await shown.press("f1")
            assert shown.dialog is None


async def test_quitting_asks_only_while_something_runs():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.step(3)
            await shown.press("ctrl+q")
            assert isinstance(shown.dialog, ConfirmScreen)
            # Enter by habit does no harm
            await shown.press("enter")
            assert shown.dialog is None
            assert shown.app.is_running
            await shown.answer()
            await shown.press("ctrl+q")
            await shown.until(lambda: shown.app._exit)


async def test_quitting_while_something_runs_can_be_confirmed():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.step(3)
            await shown.press("ctrl+q", "y")
            await shown.until(lambda: shown.app._exit)
    with open_service(ScriptedEngine()) as service:
        assert last_text(service, service.chats()[0].id).startswith("word0 ")


@pytest.mark.parametrize("size", [SMALL, LARGE])
async def test_the_question_whether_to_quit_follows_what_runs(size):
    engine = ScriptedEngine([["one"] * 8, ["two"] * 30])
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("x")
            await shown.press("ctrl+n")
            await shown.ask("y")
            await shown.press("ctrl+q")
            assert "2 answers are still running" in shown.text
            while len(shown.app.workspace.running) > 1:
                await shown.step(1)
            await shown.until_shown("An answer is still running")
            assert "Quitting stops it." in shown.text
            await shown.answer()
            await shown.until_shown("No answer is running any more")
            assert "Quitting stops" not in shown.text
            # what was about to be answered still is
            await shown.press("y")
            await shown.until(lambda: shown.app._exit)


async def test_the_quit_key_said_again_quits_and_control_c_stays():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.step(3)
            await shown.press("ctrl+q", "ctrl+c")
            assert shown.dialog is None
            assert not shown.app._exit
            await shown.press("ctrl+q", "ctrl+q")
            await shown.until(lambda: shown.app._exit)


async def test_control_c_does_the_least_destructive_thing_first():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.step(3)
            await shown.write("a draft")
            await shown.press("ctrl+c")
            await shown.until(lambda: bool(engine.cancelled))
            await shown.answer()
            assert shown.prompt.text == "a draft"
            await shown.press("ctrl+c")
            assert shown.prompt.text == ""
            await shown.press("up")
            assert shown.prompt.text == "a draft"
            await shown.press("ctrl+c", "ctrl+c")
            assert not shown.app._exit
            await shown.press("ctrl+c")
            await shown.until(lambda: shown.app._exit)


async def test_an_unknown_slash_command_is_not_sent_and_not_lost():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.write("/hlep")
            await shown.press("enter")
            await shown.until_shown("There is no command /hlep")
            assert shown.prompt.text == "/hlep"
            assert engine.submitted == []


async def test_two_slashes_send_text_that_begins_with_one():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("//etc/hosts is what?")
            assert "❯ /etc/hosts is what?" in shown.text


async def test_trouble_with_saving_is_told_until_it_is_over():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            shown.app._bridge.put((SavingFailed(DiskFull("The disk is full.")),))
            await shown.beat()
            assert "Not saved at the moment: The disk is full." in shown.text
            shown.app._bridge.put((SavingRecovered(),))
            await shown.beat()
            assert "Not saved" not in shown.text


async def test_low_screens_give_up_the_keys_first_then_the_top_line():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            assert "F1 help" in shown.text
            await shown.resize(80, 15)
            assert "F1 help" not in shown.text
            assert "KV " in shown.text
            await shown.resize(60, 12)
            assert "KV " not in shown.text
            assert "Ask anything" in shown.text


@pytest.mark.parametrize("key", ["f3", "f6"])
async def test_the_quit_key_quits_from_a_screen_over_the_chat(key):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.press(key)
            await shown.until(lambda: shown.app.screen is not shown.app.chat)
            await shown.press("ctrl+q")
            await shown.until(lambda: shown.app._exit)
