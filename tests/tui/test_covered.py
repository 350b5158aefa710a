"""The chat below another whole screen is not drawn, and has missed nothing when it is back."""

from __future__ import annotations

from testkit.screens import open_service, stage
from testkit.scripted_engine import ScriptedEngine


async def test_a_covered_chat_is_not_painted_and_shows_what_it_missed():
    engine = ScriptedEngine([[f"word{n} " for n in range(30)]])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("question")
            await shown.step(3)
            chat = shown.app.chat
            assert chat.is_current
            await shown.press("f3")
            assert shown.dialog is not None
            assert not chat.is_current
            drawn = shown.transcript.document.num_lines
            engine.run_until_idle()
            await shown.until(lambda: not shown.app.workspace.running)
            assert shown.transcript.document.num_lines == drawn
            await shown.press("escape")
            assert chat.is_current
            await shown.until_shown("word29")
            assert "30 tok" in shown.text


async def test_a_chat_below_a_dialog_goes_on():
    engine = ScriptedEngine([[f"word{n} " for n in range(12)]])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("question")
            await shown.step(2)
            await shown.press("ctrl+p")
            assert shown.dialog is not None
            assert shown.app.chat.is_current
            engine.run_until_idle()
            await shown.until(lambda: not shown.app.workspace.running)
            await shown.beat()
            assert shown.last_answer.text.endswith("word11 ")
            assert shown.transcript.document.line(2).plain.strip().startswith("word0")
