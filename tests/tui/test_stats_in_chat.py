"""The dashboard over the chat: opened by its key, of this program, and left the way one came."""

from __future__ import annotations

import os

import pytest

from localpaged.tui.screens.stats import ChatStatsScreen, OneAtATime
from localpaged.tui.stats.socket_source import SocketSource
from testkit.glass import Looker
from testkit.screens import Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.scripted_stats import ScriptedSource, model, snapshot
from testkit.sizes import SIZES

HOSTILE = "\x1b[31m[b]$x[/b]\u202eevil"


class ClosableScript(ScriptedSource):
    """A scripted source that knows whether it was closed."""

    num_closed = 0

    def close(self) -> None:
        """See SocketSource."""
        self.num_closed += 1


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> ClosableScript:
    """What this program tells of itself, beside another program."""
    told = ClosableScript(
        **{str(os.getpid()): snapshot(os.getpid(), model(HOSTILE)), "7": snapshot(7, model("b"))}
    )
    monkeypatch.setattr("localpaged.tui.screens.stats.SocketSource", lambda: told)
    return told


async def opened(shown: Stage) -> ChatStatsScreen:
    await shown.press("f4")
    screen = shown.app.screen
    assert isinstance(screen, ChatStatsScreen)
    return screen


@SIZES
async def test_it_tells_of_this_program_and_leads_back(source, size):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.write("a draft")
            await opened(shown)
            await shown.until_shown("decode tok/s")
            assert "[31m[b]$x[/b]" in shown.text and "evil" in shown.text
            assert "q back" in shown.text and "q quit" not in shown.text
            await Looker(shown).check()
            for way in ("escape", "q", "f4", "ctrl+c"):
                await shown.press(way)
                assert shown.dialog is None, way
                assert shown.prompt.text == "a draft" and shown.prompt.has_focus
                await opened(shown)
            await shown.until(lambda: source.num_closed == 4)


@SIZES
async def test_esc_leads_from_a_view_to_the_first_one_before_it_leaves(source, size):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            screen = await opened(shown)
            await shown.until_shown("decode tok/s")
            await shown.press("m")
            assert screen.view == "map"
            await shown.press("escape")
            assert screen.view == "overview" and shown.dialog is screen
            await shown.press("f1", "end")
            await shown.until_shown("Back to the chat")
            await shown.press("escape", "escape")
            assert shown.dialog is None


async def test_the_command_opens_it_and_a_key_of_the_users_own_closes_it(source):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, keymap={"stats": "f8"}) as shown:
            await shown.say("/stats")
            assert isinstance(shown.dialog, ChatStatsScreen)
            await shown.press("f8")
            assert shown.dialog is None
            await shown.press("f8", "f8")
            assert shown.dialog is None


async def test_the_quit_key_quits_from_it(source):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await opened(shown)
            await shown.press("ctrl+q")
            await shown.until(lambda: not shown.app.is_running)


def test_a_source_that_is_closed_opens_nothing_any_more(home):
    source = OneAtATime(SocketSource())
    assert source.engines() == ()
    source.close()
    assert source.engines() == ()
