"""Finding a text in the chat that is shown."""

from __future__ import annotations

from localpaged.tui.screens.find import FindScreen
from testkit.past_chats import write_chat
from testkit.screens import Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES


async def find(shown: Stage, text: str) -> None:
    shown.transcript.focus()
    await shown.press("slash")
    assert isinstance(shown.dialog, FindScreen)
    await shown.burst("ctrl+a", "ctrl+k", *text, "enter")


def found_text(shown: Stage) -> str:
    """The line that stands out."""
    transcript = shown.transcript
    found = transcript.found
    assert found is not None, shown.text
    index = transcript.document.reach(found.entry)
    y = transcript.document.lines_of(index).start + found.offset
    top = round(transcript.scroll_y)
    assert top <= y < top + transcript.size.height, "the line is not in view"
    assert transcript.is_found(y)
    return transcript.document.line(y).plain


@SIZES
async def test_a_text_is_found_and_gone_through_in_both_directions(size):
    write_chat([(f"question {n}", f"needle {n}" if n % 20 == 0 else "hay") for n in range(60)])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await find(shown, "NEEDLE")
            assert found_text(shown) == "needle 40"
            await shown.press("N")
            assert found_text(shown) == "needle 20"
            await shown.press("N")
            assert found_text(shown) == "needle 0"
            await shown.press("n")
            assert found_text(shown) == "needle 20"
            await shown.press("N", "N")
            assert found_text(shown) == "needle 40"
            await shown.until_shown("From the end again")
            await shown.press("n")
            assert found_text(shown) == "needle 0"
            assert not shown.transcript.is_following


async def test_several_lines_of_one_message_are_gone_through():
    answer = "needle one\n\n" + "hay " * 100 + "\n\n- needle two\n- needle three"
    write_chat([("question", answer)])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await find(shown, "needle")
            texts = [found_text(shown)]
            for _ in range(3):
                await shown.press("N")
                texts.append(found_text(shown))
            assert texts == ["needle three", "needle two", "needle one", "needle three"]


async def test_a_text_that_is_wrapped_is_found_where_it_begins():
    write_chat([("word " * 14 + "beginning of needles here", "x")])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await find(shown, "beginning of needles here")
            assert "beginning" in found_text(shown)


async def test_a_folded_question_unfolds_where_something_is_found_in_it():
    write_chat([("\n".join(f"line {n}" for n in range(200)), "x")])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await find(shown, "line 100")
            assert found_text(shown) == "line 100"


async def test_what_is_not_there_is_said():
    write_chat([("question", "answer")])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await find(shown, "[red]zebra")
            await shown.until_shown("This chat has no “[red]zebra”")
            assert shown.transcript.found is None


async def test_the_slash_command_finds_and_leaving_ends_it():
    write_chat([("question", "an answer")])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/find answer")
            assert found_text(shown) == "an answer"
            assert "lines below" not in shown.text
            await shown.press("i")
            assert shown.transcript.found is None
            assert shown.app.focused is shown.prompt


async def test_without_a_text_the_next_place_asks_for_one():
    write_chat([("question", "answer")])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            shown.transcript.focus()
            await shown.press("n")
            assert isinstance(shown.dialog, FindScreen)
            await shown.press("escape")
            assert shown.dialog is None
