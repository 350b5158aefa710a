"""What other programs write into the history shows in a chat that is running."""

from __future__ import annotations

from localpaged.tui import app as app_module
from testkit.past_chats import write_chat
from testkit.screens import LARGE, open_service, stage
from testkit.scripted_engine import ScriptedEngine


async def test_a_chat_that_another_program_makes_appears_in_the_list(monkeypatch):
    monkeypatch.setattr(app_module, "HISTORY_POLL_S", 0.0)
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("mine")
            await shown.answer()
            await shown.write("a draft")
            write_chat([("asked elsewhere", "yes")], title="From a script")
            await shown.until_shown("From a script")
            assert shown.app.workspace.current.title == "mine"
            assert shown.prompt.text == "a draft"


async def test_the_list_is_read_again_only_when_the_history_has_changed():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            shown.app.workspace.follow_history()
            assert not shown.app.workspace.follow_history()
            write_chat([("asked elsewhere", "yes")], title="From a script")
            assert shown.app.workspace.follow_history()
            assert not shown.app.workspace.follow_history()
