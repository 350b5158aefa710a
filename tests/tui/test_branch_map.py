"""Every way of a chat in one list: what it tells, and going to one."""

from __future__ import annotations

from localpaged.tui.screens.picker import PickerScreen
from testkit.screens import open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

HOSTILE = "[b]\x1b[31mred\u202e\u200b"


@SIZES
async def test_the_ways_are_listed_and_one_of_them_is_shown(size):
    engine = ScriptedEngine([["first answer"], [HOSTILE], ["to the second"]])
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("why?")
            await shown.answer()
            await shown.press("ctrl+r")
            await shown.until(lambda: len(engine.submitted) == 2)
            await shown.answer()
            await shown.ask("and then?")
            await shown.answer()
            await shown.say("/tree")
            await shown.until(lambda: isinstance(shown.dialog, PickerScreen))
            await shown.settle()
            rows = [line for line in shown.text.split("\n") if "message" in line]
            assert "you: why?" in rows[0] and "1 message" in rows[0]
            assert "↳ first answer" in rows[1] and "1/2 · 1 message" in rows[1]
            assert "● [b] [31mred" in rows[2] and "2/2 · 3 messages · shown" in rows[2]
            # the way that is shown is the one that Enter takes
            await shown.press("up", "enter")
            await shown.until(lambda: shown.dialog is None)
            await shown.beat()
            assert "first answer" in shown.text and "and then?" not in shown.text
            await shown.say("/tree")
            await shown.until(lambda: isinstance(shown.dialog, PickerScreen))
            await shown.settle()
            await shown.press("down", "enter")
            await shown.until(lambda: shown.dialog is None)
            await shown.until_shown("and then?")
            assert "first answer" not in shown.text


async def test_a_chat_of_one_way_says_how_others_come_to_be():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/tree")
            assert "Nothing has been asked here yet." in shown.text
            await shown.ask("why?")
            await shown.answer()
            await shown.say("/tree")
            await shown.until_shown("This chat has one way. ^R, edits and forks make others.")


async def test_names_of_other_programs_do_what_they_do_there():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("why?")
            await shown.step()
            await shown.say("/title Another")
            assert shown.app.workspace.current.title == "Another"
            await shown.press("escape")
            await shown.answer()
            await shown.say("/resume")
            await shown.until(lambda: len(engine.submitted) == 2)


async def test_the_transcript_deletes_its_chat_and_undo_brings_it_back():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("why?")
            await shown.answer()
            shown.transcript.focus()
            await shown.press("X")
            assert not shown.app.workspace.sessions
            assert "^Z brings it back" in shown.text
            await shown.press("ctrl+z")
            assert len(shown.app.workspace.sessions) == 1
