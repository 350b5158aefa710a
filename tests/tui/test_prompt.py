"""Writing: lines, pastes, drafts and earlier messages."""

from __future__ import annotations

import time

import pytest

from localpaged.plain_text import visible
from testkit.screens import open_service, paste, screen_text, stage
from testkit.scripted_engine import ScriptedEngine

BIG = "\n".join(f"line {n} " + "x" * 190 for n in range(5_000))


@pytest.mark.parametrize("key", ["ctrl+j", "shift+enter", "alt+enter"])
async def test_a_new_line_is_not_a_send(key):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.press("a", key, "b")
            assert shown.prompt.text == "a\nb"
            assert engine.submitted == []


async def test_a_backslash_before_enter_is_a_new_line():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.press("a", "backslash", "enter", "b")
            assert shown.prompt.text == "a\nb"


async def test_nothing_but_spaces_is_not_sent():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.press("space", "enter")
            assert shown.app.workspace.current.entries == []


@pytest.mark.parametrize(
    ("pasted", "kept"),
    [
        ("one\ntwo\nthree", "one\ntwo\nthree"),
        ("one\r\ntwo\r\n", "one\ntwo\n"),
        ("one\rtwo\r", "one\ntwo\n"),
        ("\tindented\n", "\tindented\n"),
        ("a\x1b[201~b\x9bc\u202ed", "a\x1b[201~b\x9bc\u202ed"),
        ("form\x0cfeed\u2028sep\x85nel", "form\x0cfeed\u2028sep\x85nel"),
    ],
)
async def test_a_paste_arrives_whole_and_sends_nothing(pasted, kept):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await paste(shown.pilot, pasted)
            assert engine.submitted == []
            assert shown.prompt.draft.full == kept
            assert visible(shown.text, multiline=True) == shown.text


async def test_a_huge_paste_is_instant_and_sent_exactly():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            started = time.perf_counter()
            await paste(shown.pilot, BIG)
            assert time.perf_counter() - started < 1.0
            assert "[pasted 5,000 lines" in shown.text
            await shown.press("enter")
            (question, _) = shown.app.workspace.current.entries
            assert question.text == BIG
            assert "more lines, click to show" in shown.text


async def test_pasting_works_while_an_answer_streams():
    engine = ScriptedEngine([["word "] * 300])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.step(5)
            await paste(shown.pilot, "a\nb\nc")
            await shown.step(5)
            assert shown.prompt.text == "a\nb\nc"
            assert len(engine.submitted) == 1


async def test_backspace_takes_a_pasted_block_away_whole():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.press("a")
            await paste(shown.pilot, BIG)
            await shown.press("backspace")
            assert shown.prompt.text == "a"
            assert shown.prompt.draft.full == "a"


async def test_two_equal_pastes_are_kept_apart():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            one, two = "a\n" * 30, "b\n" * 30
            await paste(shown.pilot, one)
            await paste(shown.pilot, two)
            assert shown.prompt.draft.full == one + two


async def test_up_and_down_recall_what_was_sent_and_the_draft():
    engine = ScriptedEngine(lambda request: ("ok",))
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            for text in ("first", "second"):
                await shown.ask(text)
                await shown.answer()
            await shown.write("draft")
            await shown.press("up")
            assert shown.prompt.text == "second"
            await shown.press("up", "up")
            assert shown.prompt.text == "first"
            await shown.press("down", "down")
            assert shown.prompt.text == "draft"


async def test_up_recalls_what_was_sent_in_other_chats_and_before_a_restart():
    engine = ScriptedEngine(lambda request: ("ok",))
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            for text in ("first", "twice", "[red]\x1bx", "twice"):
                await shown.ask(text)
                await shown.answer()
            await shown.press("ctrl+n", "up")
            assert shown.prompt.text == "twice"
            deleted = service.new_chat()
            service.send(deleted.id, "of a deleted chat")
            await shown.answer()
            service.delete(deleted.id)
    with open_service(ScriptedEngine()) as service:
        async with stage(service, ScriptedEngine(), is_loaded=False) as shown:
            await shown.until(lambda: bool(shown.prompt._sent))
            await shown.press("up")
            assert shown.prompt.text == "twice"
            await shown.press("up")
            assert shown.prompt.draft.full == "[red]\x1bx"
            await shown.press("up", "up")
            assert shown.prompt.text == "first"


async def test_up_moves_in_a_text_of_several_lines_first():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("first")
            await shown.answer()
            await shown.write("a\nb")
            await shown.press("up")
            assert shown.prompt.text == "a\nb"
            await shown.press("up")
            assert shown.prompt.text == "first"


async def test_drafts_stay_with_their_chats():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("first")
            await shown.answer()
            await shown.write("draft of the first")
            await shown.press("ctrl+n")
            assert shown.prompt.text == ""
            await shown.write("draft of the second")
            await shown.press("alt+left")
            assert shown.prompt.text == "draft of the first"
            await shown.press("alt+left")
            assert shown.prompt.text == "draft of the second"


async def test_drafts_survive_a_restart():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.write("not sent yet")
            await shown.press("ctrl+q")
            await shown.until(lambda: shown.app._exit)
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            assert shown.prompt.text == "not sent yet"


async def test_a_draft_is_saved_while_nobody_does_anything(monkeypatch):
    monkeypatch.setattr("localpaged.tui.commands.drafts.SAVE_AFTER_S", 0.0)
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.write("saved by itself")
            await shown.until(
                lambda: [chat.draft for chat in service.chats()] == ["saved by itself"]
            )


async def test_the_prompt_grows_with_its_text_up_to_a_limit():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            assert shown.prompt.size.height == 1
            await shown.write("a\nb\nc")
            await shown.until(lambda: shown.prompt.size.height == 3)
            await shown.write("\n" * 15)
            await shown.until(lambda: shown.prompt.size.height == 10)


async def test_control_characters_in_the_prompt_are_drawn_as_marks():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            shown.prompt.insert("a\x1b]0;x\x07b")
            await shown.settle()
            assert visible(screen_text(shown.app), multiline=True) == screen_text(shown.app)
