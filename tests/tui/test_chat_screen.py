"""The chat screen over the real service and a scripted engine: every key and state."""

from __future__ import annotations

import pytest

from localpaged.chat.events import SavingFailed, SavingRecovered
from localpaged.engine.events import FinishReason, LoadEvent
from localpaged.errors import BadModelFile, DiskFull, StepFailed
from localpaged.store.rows import TurnStatus
from localpaged.tui.glyphs import ASCII
from localpaged.tui.screens.confirm import ConfirmScreen
from localpaged.tui.screens.help import HelpScreen
from localpaged.tui.screens.picker import PickerScreen
from localpaged.tui.screens.rename import RenameScreen
from testkit.past_chats import write_chat
from testkit.screens import LARGE, SMALL, last_text, open_service, stage
from testkit.scripted_engine import MIB, Answer, ScriptedEngine

SIZES = pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "140x40"])
LONG = tuple(f"word{n} " for n in range(400))


@SIZES
async def test_a_question_is_answered(size):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("Say hello")
            assert "❯ Say hello" in shown.text
            await shown.answer()
            assert "Hello, world." in shown.text
            assert "4 tok" in shown.text
            assert "0 cached + 12 new" in shown.text
            assert shown.prompt.text == ""


@SIZES
async def test_the_pool_is_shown_live(size):
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("x" * 200)
            await shown.step(2)
            assert "KV █" in shown.text
            assert ("13 active" in shown.text) is (size == LARGE)


async def test_writing_is_possible_while_the_model_loads_and_what_is_sent_waits():
    engine = ScriptedEngine(load_stages=[LoadEvent("reading weights", 40 * MIB, 94 * MIB, "bytes")])
    with open_service(engine) as service:
        async with stage(service, engine, is_loaded=False) as shown:
            assert "Write already" in shown.text
            await shown.ask("early")
            await shown.until_shown("waits for the model")
            engine._emit([LoadEvent("reading weights", 40 * MIB, 94 * MIB, "bytes")])
            await shown.until_shown("40.0 MiB of 94.0 MiB")
            engine.load()
            await shown.answer()
            assert "Hello, world." in shown.text
            assert "loading" not in shown.text


@SIZES
async def test_a_model_that_cannot_be_loaded_is_told_and_history_stays_readable(size):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("before")
            await shown.answer()
    broken = ScriptedEngine(load_error=BadModelFile("The file is cut.", hint="Fetch it again."))
    with open_service(broken) as service:
        async with stage(service, broken, size=size) as shown:
            await shown.until_shown("The file is cut.")
            assert "Fetch it again." in shown.text
            assert "Hello, world." in shown.text
            await shown.write("kept")
            await shown.press("enter")
            assert shown.prompt.text == "kept"
            assert broken.submitted == []


async def test_escape_stops_and_keeps_the_text_and_f5_goes_on():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("tell me")
            await shown.step(5)
            await shown.press("escape")
            await shown.until(lambda: bool(engine.cancelled))
            await shown.answer()
            assert "word3" in shown.text
            assert "stopped" in shown.text
            await shown.press("f5")
            await shown.until(lambda: len(engine.submitted) == 2)
            assert "word3" in shown.text
            await shown.answer()
            assert shown.last_answer.status is TurnStatus.DONE


async def test_two_chats_generate_at_the_same_time_and_one_is_switched_to_at_once():
    engine = ScriptedEngine(lambda request: LONG)
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("first")
            await shown.press("ctrl+n")
            await shown.ask("second")
            await shown.step(6)
            answers = [session.last_answer for session in shown.app.workspace.sessions]
            assert [bool(answer and answer.text) for answer in answers] == [True, True]
            assert "1 other chat generating" in shown.text
            await shown.press("alt+right")
            assert shown.app.workspace.current.title == "first"
            assert "❯ first" in shown.text
            await shown.answer()
            states = {s.title: s.state.value for s in shown.app.workspace.sessions}
            assert states == {"first": "idle", "second": "unread"}
            await shown.press("alt+1")
            assert shown.app.workspace.current.state.value == "idle"


async def test_the_list_shows_each_chats_state():
    def script(request):
        return Answer(("half",), error=StepFailed("broke")) if "bad" in text_of(request) else LONG

    engine = ScriptedEngine(script)
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE, glyphs=ASCII) as shown:
            for title in ("bad one", "good one"):
                await shown.press("ctrl+n")
                await shown.ask(title)
            await shown.step(6)
            await shown.until(lambda: "! bad one" in shown.text)
            assert any(f"{spin} good one" in shown.text for spin in ASCII.spinner)
            await shown.answer()
            assert "> good one" in shown.text


async def test_a_failed_answer_shows_message_and_hint_under_its_text():
    engine = ScriptedEngine([Answer(("half",), error=StepFailed("It broke.", hint="Try again."))])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.answer()
            for text in ("half", "! It broke.", "Try again."):
                assert text in shown.text


async def test_a_message_sent_while_an_answer_runs_waits_behind_it():
    engine = ScriptedEngine(lambda request: ("one ", "two "))
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("first")
            await shown.write("second")
            await shown.press("enter")
            assert "❯ second" in shown.text
            assert "queued" in shown.text
            engine.run_until_idle()
            await shown.until(lambda: len(engine.submitted) == 2)
            await shown.answer()
            assert "queued" not in shown.text


async def test_reading_a_long_prompt_shows_its_progress():
    engine = ScriptedEngine(prefill_tokens_per_step=50)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x" * 197)
            await shown.step(2)
            assert "0 cached + 100 of 200 new" in shown.text


async def test_an_answer_interrupted_by_a_crash_is_marked_and_continued():
    write_chat([("tell", "word0 word1")], last_status=TurnStatus.INTERRUPTED)
    engine = ScriptedEngine([(" and", " on")])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            assert "interrupted" in shown.text
            await shown.press("f5")
            await shown.until(lambda: bool(engine.submitted))
            await shown.answer()
            assert "word0 word1 and on" in shown.text
            assert "interrupted" not in shown.text


async def test_the_list_marks_chats_interrupted_by_a_crash_before_they_are_opened():
    write_chat([("a", "half")], title="broken off", last_status=TurnStatus.INTERRUPTED)
    write_chat([("q", "a")] * 3, title="newer")
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            assert shown.app.workspace.current.title == "newer"
            await shown.until_shown("◐ broken off")


@SIZES
async def test_renaming_a_chat(size):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("old name")
            await shown.answer()
            shown.app.commands.run("rename")
            await shown.until(lambda: isinstance(shown.dialog, RenameScreen))
            await shown.press("ctrl+a", "ctrl+k", *"New", "enter")
            await shown.until(lambda: shown.dialog is None)
            await shown.beat()
            assert "New" in shown.text
            assert [chat.title for chat in service.chats()] == ["New"]


async def test_renaming_by_slash_command():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("old name")
            await shown.write("/rename Other name")
            await shown.press("enter")
            assert "Other name" in shown.text
            assert shown.prompt.text == ""


@SIZES
async def test_deleting_a_chat_can_be_undone(size):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("doomed chat")
            await shown.answer()
            shown.app.commands.run("delete")
            await shown.beat()
            await shown.until_shown("^Z brings it back")
            assert service.chats() == []
            assert "Hello, world." not in shown.text
            await shown.press("ctrl+z")
            assert "Hello, world." in shown.text
            assert [chat.title for chat in service.chats()] == ["doomed chat"]


async def test_deleting_a_running_chat_stops_it_and_undo_shows_its_text():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("doomed chat")
            await shown.step(4)
            shown.app.commands.run("delete")
            await shown.until(lambda: bool(engine.cancelled))
            engine.run_until_idle()
            await shown.press("ctrl+z")
            assert "word1" in shown.text


async def test_after_typing_the_undo_key_undoes_typing():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("doomed chat")
            await shown.answer()
            shown.app.commands.run("delete")
            await shown.press("a", "b")
            await shown.press("ctrl+z")
            assert shown.prompt.text == ""
            assert service.chats() == []


async def test_the_list_of_chats_follows_the_width():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            sidebar = shown.sidebar
            assert sidebar.display
            assert sidebar.size.width == 26
            await shown.resize(100, 30)
            assert not sidebar.display
            await shown.press("ctrl+b")
            assert sidebar.display
            assert shown.app.focused is sidebar
            await shown.press("escape")
            assert not sidebar.display
            assert shown.app.focused is shown.prompt
            await shown.resize(79, 24)
            await shown.press("ctrl+b")
            assert isinstance(shown.dialog, PickerScreen)


async def test_choosing_renaming_and_deleting_in_the_list():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            for title in ("one", "two"):
                await shown.press("ctrl+n")
                await shown.ask(title)
                await shown.answer()
            shown.sidebar.focus()
            await shown.press("down", "enter")
            assert shown.app.workspace.current.title == "one"
            shown.sidebar.focus()
            await shown.press("r")
            assert isinstance(shown.dialog, RenameScreen)
            await shown.press("escape")
            await shown.press("d")
            assert [s.title for s in shown.app.workspace.sessions] == ["two"]


async def test_a_click_in_the_list_opens_a_chat():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            for title in ("one", "two"):
                await shown.press("ctrl+n")
                await shown.ask(title)
                await shown.answer()
            row = next(y for y, line in enumerate(shown.text.split("\n")) if line[3:6] == "one")
            await shown.pilot.click(offset=(5, row))
            await shown.settle()
            assert shown.app.workspace.current.title == "one"


async def test_going_to_a_chat_by_typing_its_name():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            for title in ("alpha", "beta"):
                await shown.press("ctrl+n")
                await shown.ask(title)
                await shown.answer()
            await shown.press("ctrl+s", *"alph", "enter")
            assert shown.app.workspace.current.title == "alpha"


async def test_the_palette_runs_commands():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            theme = shown.app.theme
            await shown.press("ctrl+p")
            assert isinstance(shown.dialog, PickerScreen)
            await shown.press(*"dark", "enter")
            assert shown.app.theme != theme


async def test_help_opens_and_closes():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.press("f1")
            assert isinstance(shown.dialog, HelpScreen)
            assert "Keys and commands" in shown.text
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


async def test_of_a_thousand_turns_only_the_newest_are_laid_out_and_older_ones_on_demand():
    write_chat([(f"question {n}", f"answer {n}") for n in range(1_000)])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            document = shown.transcript.document
            assert "answer 999" in shown.text
            assert document.num_earlier == 1_940
            assert len(document.cells) == 61
            shown.transcript.focus()
            await shown.press("g")
            assert document.num_earlier == 1_920
            assert "question 970" in shown.text


async def test_an_answer_cut_by_its_length_says_so():
    engine = ScriptedEngine([Answer(("a", "b"), reason=FinishReason.LENGTH)])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.answer()
            assert "cut at its length limit" in shown.text


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
            await shown.resize(80, 20)
            assert "F1 help" not in shown.text
            assert "KV " in shown.text
            await shown.resize(60, 12)
            assert "KV " not in shown.text
            assert "Ask anything" in shown.text


async def test_what_the_model_is_asked_is_what_was_written_to_the_letter():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("[b]a[/b]\n  two  spaces")
            assert "[b]a[/b]\n  two  spaces" in text_of(engine.submitted[0])


def text_of(request) -> str:
    return "".join(chr(token) for token in request.prompt_ids if token < 0x110000)
