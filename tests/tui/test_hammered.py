"""Keys pressed where they mean little, in any order and faster than anything answers."""

from __future__ import annotations

from localpaged.tui.notices import Notices
from testkit.past_chats import write_chat
from testkit.screens import open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES


@SIZES
async def test_an_empty_chat_has_no_message_to_go_another_way_at(size):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            shown.transcript.focus()
            await shown.press("k", "j", "e", "r", "f", "[", "]", "y", "Y", "t", "w", "space")
            assert shown.transcript.marked_entry is None
            assert shown.dialog is None
            await shown.ask("q")
            await shown.answer()
            assert "Hello, world." in shown.text


@SIZES
async def test_a_system_prompt_alone_is_nothing_to_fork_or_to_go_another_way_at(size):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.write("/system be brief")
            await shown.press("enter", "ctrl+f")
            assert "There is nothing to fork yet." in shown.text
            shown.transcript.focus()
            await shown.press("k", "f", "e", "r", "[", "]", "y", "Y", "t", "w")
            assert len(shown.app.workspace.sessions) == 1
            await shown.ask("q")
            await shown.answer()
            assert "Hello, world." in shown.text


async def test_a_message_that_is_gone_when_its_key_arrives_is_not_another_one():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("q")
            await shown.answer()
            for way in ("edit", "regenerate", "fork", "older", "newer"):
                shown.app.chat.commands.branches.go(way, 7)
            await shown.settle()
            assert shown.app.workspace.current.editing is None
            assert len(engine.submitted) == 1
            assert len(shown.app.workspace.sessions) == 1


@SIZES
async def test_how_to_leave_an_edit_is_told_above_what_it_is_scrolled_away_from(size):
    engine = ScriptedEngine()
    write_chat([(f"question {number}", "an answer\n\n" * 9) for number in range(6)])
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            shown.transcript.focus()
            await shown.press("k", "k", "k", "k", "k", "e")
            assert "lines below" in shown.text
            assert "Esc leaves it" in shown.text
            assert "…" not in next(line for line in shown.text.split("\n") if "leaves it" in line)


async def test_a_message_that_is_shown_is_not_shown_again_above_it():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            for _ in range(9):
                await shown.press("ctrl+r")
            assert shown.text.count("There is no answer to regenerate yet.") == 1


def test_a_message_that_is_gone_is_shown_again():
    now_s = 0.0
    notices = Notices(lambda: now_s)
    assert notices.is_new("a", for_s=4.0)
    assert not notices.is_new("a", for_s=4.0)
    assert notices.is_new("b", for_s=4.0)
    now_s = 4.0
    assert notices.is_new("a", for_s=4.0)


async def test_a_beat_that_comes_when_the_screens_are_gone_draws_nothing():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("q")
        assert not shown.app.screen_stack
        engine.run_until_idle()
        assert not shown.app.beat()
