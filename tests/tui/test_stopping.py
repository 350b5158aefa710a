"""Stopping: acknowledged at once, and what is asked for meanwhile is not lost."""

from __future__ import annotations

from localpaged.store.rows import TurnStatus
from testkit.screens import open_service, stage
from testkit.scripted_engine import ScriptedEngine

LONG = tuple(f"word{n} " for n in range(400))


async def test_stopping_is_shown_before_the_engine_has_stopped():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.step(3)
            await shown.press("escape")
            assert "stopping …" in shown.text
            await shown.answer()
            assert "stopping …" not in shown.text
            assert "■ stopped" in shown.text


async def test_stopping_by_control_c_is_shown_as_well():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.press("ctrl+c")
            assert "stopping …" in shown.text


async def test_continuing_while_it_stops_happens_when_it_has_stopped():
    engine = ScriptedEngine([LONG, ["and on."]])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.step(3)
            await shown.press("escape", "f5")
            assert "stopping …, then it continues" in shown.text
            engine.run_until_idle()
            await shown.until(lambda: len(engine.submitted) == 2)
            await shown.answer()
            assert shown.last_answer.status is TurnStatus.DONE
            assert "and on." in shown.text


async def test_continuing_what_still_runs_says_why_not():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.step(3)
            await shown.press("f5")
            assert "The answer is still running" in shown.text
