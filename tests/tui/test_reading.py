"""Selecting, copying and walking through a transcript."""

from __future__ import annotations

from textual.app import App
from textual.geometry import Offset
from textual.selection import Selection

from localpaged.tui import clipboard
from localpaged.tui.markdown.blocks import code_blocks
from testkit.past_chats import write_chat
from testkit.screens import Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine

ANSWER = "**b**\n\n- item\n\n```python\nif x:\n    y\n```\n\nend \x1b[31m\n\n```sh\nls\n```\n"


def select(shown: Stage, start: tuple[int, int], end: tuple[int, int]) -> None:
    transcript = shown.transcript
    shown.app.chat.selections = {transcript: Selection(Offset(*start), Offset(*end))}


async def test_y_copies_the_answer_exactly(copied):
    write_chat([("q", ANSWER)])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            shown.transcript.focus()
            await shown.press("y")
            assert copied == [ANSWER]
            await shown.until_shown("Copied the answer")


async def test_capital_y_copies_code_without_fences_the_last_block_first(copied):
    write_chat([("q", ANSWER)])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            shown.transcript.focus()
            await shown.press("Y", "Y", "Y")
            assert copied == ["ls\n", "if x:\n    y\n", "ls\n"]


async def test_the_message_cursor_decides_what_is_copied(copied):
    write_chat([("first question", "first answer"), ("second question", "second answer")])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            shown.transcript.focus()
            await shown.press("k", "k", "y", "k", "y", "j", "j", "y")
            assert copied == ["second question", "first answer", "second answer"]
            assert "▎" in shown.text
            await shown.press("enter")
            assert shown.app.focused is shown.prompt
            assert "▎" not in shown.text


async def test_copy_as_a_command(copied):
    write_chat([("q", "the answer")])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/copy")
            assert copied == ["the answer"]


async def test_a_selection_reads_like_its_source(copied):
    write_chat([("q", "one two three four five six\n\n1. first\n2. second")])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=(24, 24)) as shown:
            lines = [line.plain for line in map(shown.transcript.document.line, range(10))]
            assert lines[2:4] == ["one two three", "four five six"]
            select(shown, (4, 2), (5, 6))
            await shown.press("ctrl+c")
            assert copied == ["two three four five six\n\nfirst\nsecon"]
            assert not shown.app.chat.selections


async def test_dragging_the_mouse_selects():
    write_chat([("q", "one two three")])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            rows = shown.text.split("\n")
            y = next(n for n, row in enumerate(rows) if "one two three" in row)
            x = rows[y].index("one")
            await shown.pilot.mouse_down(offset=(x + 4, y))
            await shown.pilot.hover(offset=(x + 6, y))
            await shown.pilot.mouse_up(offset=(x + 6, y))
            assert shown.app.chat.get_selected_text() == "two"


async def test_a_long_question_is_folded_until_it_is_clicked():
    question = "\n".join(f"row {n}" for n in range(40))
    write_chat([(question, "a")])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            assert "28 more lines, click to show" in shown.text
            y = next(n for n, row in enumerate(shown.text.split("\n")) if "more lines" in row)
            await shown.pilot.click(offset=(10, y))
            await shown.press("ctrl+end")
            assert "row 39" in shown.text
            assert "more lines" not in shown.text


async def test_earlier_messages_load_with_a_click_and_the_view_stays():
    write_chat([(f"question {n}", f"answer {n}") for n in range(60)])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            transcript = shown.transcript
            transcript.put(0)
            await shown.settle()
            assert "60 earlier messages" in shown.text
            y = next(n for n, row in enumerate(shown.text.split("\n")) if "earlier" in row)
            await shown.pilot.click(offset=(10, y))
            assert transcript.document.num_earlier == 40
            assert "question 30" in shown.text


def test_code_blocks_are_found_in_any_fence():
    assert code_blocks("~~~\na\n~~~\n- x\n  ```\n  b\n  ```\n") == ["a\n", "b\n"]


def test_long_texts_do_not_go_through_the_terminals_clipboard(monkeypatch):
    sent: list[str] = []
    app: App[None] = App()
    monkeypatch.setattr(app, "copy_to_clipboard", sent.append)
    assert clipboard.copy(app, "x\ud800") is True
    assert clipboard.copy(app, "x" * 200_000) is False
    assert sent == ["x?"]
