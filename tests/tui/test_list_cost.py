"""What eight chats that stream cost while one of them is shown and the list tells of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from textual.geometry import Region
from textual.strip import Strip

from localpaged.tui.compositor import FrugalCompositor
from localpaged.tui.costs import LOOK_EVERY_S, CostWatch
from localpaged.tui.markdown.line import Line
from localpaged.tui.paint import Painter
from localpaged.tui.session import SessionModel
from testkit.past_chats import write_chat
from testkit.screens import LARGE, Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine

CHATS = 8
BEATS = 12
MOVING = {"transcript", "sidebar", "state", "title", "top", "hints", "RowScrollBar"}


async def _eight_chats(shown: Stage) -> None:
    for number in range(CHATS):
        await shown.press("ctrl+n")
        await shown.ask(f"chat {number}")
    await shown.step(60)


async def _stream(shown: Stage) -> None:
    for _ in range(BEATS):
        shown.engine.step()
        await shown.beat()


async def test_only_the_rows_that_move_are_painted(monkeypatch):
    rows: Counter[str] = Counter()
    original = FrugalCompositor._get_renders

    def counting(
        compositor: FrugalCompositor, crop: Region | None = None
    ) -> Iterable[tuple[Region, Region, list[Strip]]]:
        widgets = {region: widget for widget, (region, _) in compositor.visible_widgets.items()}
        for region, clip, strips in original(compositor, crop):
            widget = widgets[region]
            rows[widget.id or type(widget).__name__] += len(strips)
            yield region, clip, strips

    engine = ScriptedEngine([["lighthouse "] * 400])
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await _eight_chats(shown)
            shown.prompt.blink_timer.pause()
            monkeypatch.setattr(FrugalCompositor, "_get_renders", counting)
            await _stream(shown)
    assert set(rows) <= MOVING
    assert 0 < rows["sidebar"] <= CHATS * BEATS
    # its own row, that which a word was wrapped into, a blank one and the line below
    assert 0 < rows["transcript"] <= 5 * BEATS


async def test_what_turns_in_the_list_is_painted_once(monkeypatch):
    engine = ScriptedEngine([["word "] * 400], total_blocks=64)
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await _eight_chats(shown)
            await _stream(shown)
            painted: list[str] = []
            original: Callable[..., Strip] = Painter.strip

            def counting(painter: Painter, line: Line, **options: Any) -> Strip:
                painted.append(line.plain)
                return original(painter, line, **options)

            monkeypatch.setattr(Painter, "strip", counting)
            await _stream(shown)
    listed = [text for text in painted if "chat " in text and len(text) < 30]
    # what a chat takes grows by a block every 16 tokens; the spinner has been all round before
    assert len(listed) <= CHATS * 2 * len(shown.app.chat.glyphs.spinner)


@pytest.mark.parametrize("num_past", [0, 60])
async def test_chats_that_do_nothing_are_looked_at_no_further(monkeypatch, num_past):
    for number in range(num_past):
        write_chat([(f"question {number}", "answer")])
    engine = ScriptedEngine([["word "] * 400])
    asked: list[SessionModel] = []
    original = SessionModel.state
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await _eight_chats(shown)

            def counting(session: SessionModel) -> Any:
                asked.append(session)
                assert original.fget is not None
                return original.fget(session)

            monkeypatch.setattr(SessionModel, "state", property(counting))
            shown.app.beat()
            rows_in_view = shown.sidebar.size.height
    assert len(asked) <= 4 * CHATS + rows_in_view


async def test_the_engine_is_asked_for_its_blocks_every_few_seconds_at_most():
    engine = ScriptedEngine([["word "] * 400])
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await _eight_chats(shown)
            watch, before = CostWatch(), engine.num_inspections
            seconds = 20
            for tenth in range(seconds * 10):
                engine.step()
                watch.follow(
                    service.snapshot(),
                    service.memory.inspect,
                    shown.app.awaited,
                    now_s=tenth / 10,
                    has_ended=False,
                )
                shown.app.awaited.take()
            assert 1 < engine.num_inspections - before <= seconds / LOOK_EVERY_S + 1
