"""Reasoning is open while it is written, then one line; copying an answer leaves it out."""

from __future__ import annotations

import re
from contextlib import contextmanager

from localpaged.chat.service import ChatService
from localpaged.store.store import Store
from localpaged.tui.glyphs import ASCII
from testkit.builders import ready_model
from testkit.fake_model import FakeChatModel
from testkit.screens import stage
from testkit.scripted_engine import Answer, ScriptedEngine
from testkit.sizes import SIZES

THOUGHT = Answer(("<think>", "\nfirst ", "second ", "</th", "ink>", "\n\n", "Paris ", "it is."))


def head_line(text: str) -> str:
    """The line of a folded thought."""
    found = re.search(r"▸ thought for \d+\.\d s · 5 tok", text)
    assert found is not None, text
    return found[0]


@contextmanager
def thinking_service(engine: ScriptedEngine, **model):
    chat_model = FakeChatModel(**(model or {"thinks": True}))
    service = ChatService(store=Store.open(), engine=engine, model=ready_model(chat_model))
    try:
        yield service
    finally:
        service.close()


@SIZES
async def test_a_thought_is_open_while_it_is_written_and_folds_when_the_answer_begins(size):
    engine = ScriptedEngine([THOUGHT])
    with thinking_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("capital?")
            await shown.step(4)
            assert "▾ thinking" in shown.text
            assert "first second" in shown.text
            assert "think>" not in shown.text
            await shown.step(4)
            head = head_line(shown.text)
            assert "first second" not in shown.text
            assert "Paris" in shown.text
            await shown.answer()
            assert "Paris it is." in shown.text
            before = shown.transcript.document.num_lines
    with thinking_service(ScriptedEngine()) as service:
        async with stage(service, engine, size=size) as shown:
            assert head_line(shown.text) == head
            assert "Paris it is." in shown.text
            assert shown.transcript.document.num_lines == before


async def test_the_key_unfolds_all_and_the_choice_is_remembered():
    engine = ScriptedEngine([THOUGHT])
    with thinking_service(engine) as service:
        async with stage(service, engine) as shown:
            for _ in range(2):
                await shown.ask("capital?")
                await shown.answer()
            await shown.press("ctrl+t")
            assert shown.text.count("first second") == 2
            assert shown.text.count("▾ thought for") == 2
        async with stage(service, engine) as shown:
            assert shown.text.count("first second") == 2
            await shown.press("ctrl+t")
            assert "first second" not in shown.text


async def test_space_folds_the_one_at_the_cursor():
    engine = ScriptedEngine([THOUGHT])
    with thinking_service(engine) as service:
        async with stage(service, engine) as shown:
            for _ in range(2):
                await shown.ask("capital?")
                await shown.answer()
            shown.transcript.focus()
            await shown.press("space")
            assert shown.text.count("first second") == 1
            await shown.press("k", "k", "k", "space")
            assert shown.text.count("first second") == 2
            await shown.press("space")
            assert shown.text.count("first second") == 1
            rows = shown.text.split("\n")
            y = next(n for n, row in enumerate(rows) if "▾ thought" in row)
            await shown.pilot.click(offset=(10, y))
            assert "first second" not in shown.text


async def test_folding_while_it_is_written_keeps_it_folded():
    engine = ScriptedEngine([THOUGHT])
    with thinking_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("capital?")
            await shown.step(3)
            shown.transcript.focus()
            await shown.press("space")
            await shown.step(1)
            assert "▸ thinking" in shown.text
            assert "first" not in shown.text
            await shown.press("space")
            await shown.step(1)
            assert "first second" in shown.text


async def test_copying_leaves_reasoning_out_unless_it_is_asked_for(copied):
    engine = ScriptedEngine([THOUGHT])
    with thinking_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("capital?")
            await shown.answer()
            shown.transcript.focus()
            await shown.press("y")
            await shown.say("/copy")
            await shown.say("/copy-all")
            whole = "".join(THOUGHT.pieces)
            assert copied == ["Paris it is.", "Paris it is.", whole]


async def test_a_thought_that_never_ended_stays_readable_and_can_be_copied(copied):
    engine = ScriptedEngine([("<think>", "all there is")])
    with thinking_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("capital?")
            await shown.answer()
            assert "not finished" in shown.text
            assert "all there is" in shown.text
            await shown.say("/copy")
            assert copied == ["<think>all there is"]


async def test_a_thought_that_the_template_opened_is_shown_as_one():
    engine = ScriptedEngine([("plan ", "it</think>", "\n\nParis")])
    with thinking_service(engine, opens_thoughts=True) as service:
        async with stage(service, engine, glyphs=ASCII) as shown:
            await shown.ask("capital?")
            await shown.step(2)
            assert "- thinking" in shown.text and "plan" in shown.text
            await shown.answer()
            assert "+ thought for" in shown.text
            assert "Paris" in shown.text and "plan" not in shown.text


async def test_a_stray_mark_and_an_empty_thought_hide_nothing():
    script = [("Write `<think>", "x</think>` so"), ("<think>", "\n\n", "</think>", "\n\n", "ok")]
    engine = ScriptedEngine(script)
    with thinking_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("one")
            await shown.answer()
            assert "<think>x</think>" in shown.text
            await shown.ask("two")
            await shown.answer()
            assert "ok" in shown.text
            assert "thought for" not in shown.text


async def test_a_thought_that_is_being_read_stays_open_when_the_answer_begins():
    pieces = ("<think>", *(f"thought {n}\n\n" for n in range(40)), "</think>", "the answer")
    engine = ScriptedEngine([pieces])
    with thinking_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("q")
            await shown.step(42)
            await shown.press("pageup")
            before = shown.text.split("\n")[4:12]
            await shown.answer()
            assert shown.text.split("\n")[4:12] == before
            assert shown.transcript.document.num_lines > 40


async def test_a_growing_thought_draws_its_end_alone():
    pieces = ("<think>", *(f"thought {n} " * 9 + "\n\n" for n in range(200)))
    engine = ScriptedEngine([pieces])
    with thinking_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("q")
            await shown.step(150)
            document = shown.transcript.document
            engine.step()
            shown.app.workspace.take(shown.app._bridge.drain())
            first = document.update(shown.app.chat.moment)
            assert document.num_lines > 300
            assert first > document.num_lines - 12


async def test_hostile_text_in_a_thought_is_text():
    hostile = "[b]x[/b] \x1b[31mred \u202eback \x9b2J \ud83d"
    engine = ScriptedEngine([("<think>", hostile, "</think>", "end")])
    with thinking_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("q")
            await shown.step(3)
            assert "[b]x[/b] ␛[31mred <U+202E>back" in shown.text
            await shown.answer()
            await shown.press("ctrl+t")
            assert "[b]x[/b] ␛[31mred <U+202E>back" in shown.text
            assert "\x1b" not in shown.text


async def test_a_megabyte_of_thought_folds_and_unfolds_without_a_pause():
    pieces = ("<think>", *["some words to think about. " * 1_300 + "\n\n"] * 30, "</think>", "end")
    engine = ScriptedEngine([pieces])
    with thinking_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("q")
            await shown.answer()
            assert "end" in shown.text
            assert shown.transcript.document.num_lines < 12
            await shown.press("ctrl+t")
            assert 500 < shown.transcript.document.num_lines < 1_200
            assert "more characters" in shown.text
