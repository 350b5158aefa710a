"""What the terminal shows is what there is: nothing stale stays where nothing is painted anew."""

from __future__ import annotations

import pytest
from textual._compositor import CompositorUpdate

from localpaged.tui.app import LocalPagedApp
from testkit.builders import ready_model
from testkit.fake_model import FakeChatModel
from testkit.glass import Glass, Looker
from testkit.past_chats import write_chat
from testkit.screens import LARGE, SMALL, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

LONG_THOUGHT = ["<think>", *(f"thought {number}\n\n" for number in range(40)), "</think>", "Yes."]


@SIZES
async def test_the_count_above_a_thought_moves_while_the_thought_grows(size):
    engine = ScriptedEngine([LONG_THOUGHT])
    with open_service(engine, model=ready_model(FakeChatModel(thinks=True))) as service:
        async with stage(service, engine, size=size) as shown:
            looker = Looker(shown)
            await shown.ask("q")
            for _ in range(6):
                await shown.step()
                await looker.check()
            assert "thinking · 5 tok" in shown.text
            await shown.answer()
            await looker.check()


@pytest.mark.parametrize("size", [SMALL, LARGE, (200, 60)])
async def test_the_first_picture_is_a_whole_one(size, monkeypatch):
    pictures = []

    def display(app, screen, update):
        if isinstance(update, CompositorUpdate) and not pictures:
            glass = Glass(*size)
            glass.write(update.render_segments(app.console))
            pictures.append(glass.text)

    monkeypatch.setattr(LocalPagedApp, "_display", display)
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size, is_loaded=False) as shown:
            await shown.beat()
            looker = Looker(shown)
            await looker.settle()
            moved = [
                now for then, now in zip(pictures[0], looker.glass.text, strict=True) if then != now
            ]
            assert all("starting the engine" in row for row in moved), moved


@pytest.mark.parametrize("rows", [40, 24, 16, 15, 13, 10, 9, 5, 3])
async def test_where_one_writes_is_on_the_screen_at_any_size(rows):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            looker = Looker(shown)
            await shown.write("many words " * 60 + "END")
            await shown.resize(40, rows)
            await looker.check()
            assert "END" in shown.text
            assert shown.prompt.cursor_screen_offset.y < rows
            assert shown.app.cursor_position == shown.prompt.cursor_screen_offset


@SIZES
async def test_a_notice_is_painted_wherever_the_chat_was_scrolled_before(size):
    engine = ScriptedEngine()
    write_chat([("q", "an answer\n\n" * 50)] * 4)
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            looker = Looker(shown)
            for number in range(4):
                await shown.press("pagedown" if number % 2 else "pageup")
                await looker.settle()
                shown.app.tell(f"notice {number}", is_error=bool(number % 2))
                await looker.check()
                assert f"notice {number}" in "\n".join(looker.glass.text)


@SIZES
async def test_the_cursor_beside_an_answer_grows_with_it(size):
    engine = ScriptedEngine([[f"line {number}\n\n" for number in range(6)]])
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            looker = Looker(shown)
            await shown.ask("q")
            await shown.step(2)
            shown.transcript.focus()
            await shown.press("k")
            for _ in range(5):
                await shown.step()
                await looker.check()


async def test_what_is_written_is_wrapped_anew_on_the_screen_when_it_is_resized():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=SMALL) as shown:
            looker = Looker(shown)
            await shown.write("w " * 100)
            for size in (LARGE, (45, 20), LARGE, SMALL):
                await shown.resize(*size)
                await looker.check()
