"""Many chats: going to one, seeing their states, renaming, deleting, bringing back."""

from __future__ import annotations

from localpaged.errors import StepFailed
from localpaged.store.rows import TurnStatus
from localpaged.tui.glyphs import ASCII
from localpaged.tui.screens.picker import PickerScreen
from localpaged.tui.screens.rename import RenameScreen
from testkit.fake_model import read_prompt
from testkit.past_chats import write_chat
from testkit.screens import LARGE, open_service, stage
from testkit.scripted_engine import Answer, ScriptedEngine
from testkit.sizes import SIZES

LONG = tuple(f"word{n} " for n in range(400))


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


async def test_the_engine_is_told_which_chat_is_looked_at():
    engine = ScriptedEngine([("ok",)])
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("first")
            await shown.press("ctrl+n")
            assert engine.focused[-1] == ""
            await shown.ask("second")
            await shown.answer()
            ids = {session.title: session.id for session in shown.app.workspace.sessions}
            await shown.press("alt+right")
            assert engine.focused[-1] == ids["first"]
            await shown.press("alt+1")
            assert engine.focused[-1] == ids["second"]
            shown.app.workspace.delete(shown.app.workspace.current)
            assert engine.focused[-1] == ids["first"]


async def test_the_list_shows_each_chats_state():
    def script(request):
        question = read_prompt(request.prompt_ids)[-2][1]
        return Answer(("half",), error=StepFailed("broke")) if "bad" in question else LONG

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
            await shown.say("/rename Other name")
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
            await shown.step(8)
            await shown.until(lambda: "word1" in shown.text)
            shown.app.commands.run("delete")
            await shown.until(lambda: bool(engine.cancelled))
            engine.run_until_idle()
            await shown.press("ctrl+z")
            await shown.until(lambda: "word1" in shown.text)


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
