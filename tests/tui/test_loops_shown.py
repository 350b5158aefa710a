"""An answer that repeats itself is ended where the user sees it, and the way on is told."""

from __future__ import annotations

from localpaged.store.rows import TurnStatus
from testkit.comparing import comparing
from testkit.screens import open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

LOOP = ["over and over again [b]\x1b[31m. "] * 400


@SIZES
async def test_why_it_ended_and_how_it_goes_on_is_told(size):
    engine = ScriptedEngine([LOOP, LOOP])
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("sing")
            await shown.answer()
            assert shown.last_answer.status is TurnStatus.STOPPED
            await shown.until_shown("it repeated itself")
            assert "F5 continues" in shown.text
            length = len(shown.last_answer.text)
            assert length < 5_000
            await shown.press("f5")
            await shown.until(lambda: len(engine.submitted) == 2)
            await shown.answer()
            assert len(shown.last_answer.text) > length


async def test_a_chat_can_have_it_switched_off():
    engine = ScriptedEngine([LOOP])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/set stop_loops=off")
            await shown.ask("sing")
            await shown.answer()
            assert shown.last_answer.status is TurnStatus.DONE
            assert shown.last_answer.text == "".join(LOOP)


async def test_a_compare_tells_it_below_the_pane():
    async with comparing("/compare n=2 Sky?", script=lambda request: LOOP) as (shown, screen):
        shown.engine.run_until_idle()
        await shown.until(lambda: not screen.model.is_running)
        await shown.step()
        assert shown.text.count("repeated itself") == 2
