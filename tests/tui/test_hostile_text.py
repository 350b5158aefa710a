"""Text of models, users and files is data: never markup, never terminal control."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from localpaged.chat.events import SavingFailed
from localpaged.engine.events import LoadEvent, ReadyEvent
from localpaged.errors import BadModelFile, DiskFull, StepFailed
from localpaged.plain_text import visible
from localpaged.tui.screens.confirm import ConfirmScreen
from testkit.fake_model import FakeChatModel
from testkit.past_chats import write_chat
from testkit.screens import LARGE, Stage, last_text, open_service, stage
from testkit.scripted_engine import Answer, ScriptedEngine
from testkit.sizes import SIZES

MARKUP = "([sys:LOCK=SAFE…]) [data: /m?id=7-] [/b] [@click=app.quit]x[/]"
CONTROL = (
    "\x1b]52;c;SGVsbG8=\x07\x1b]0;x\x07\x1b]8;;http://x\x1b\\\x1b[2J\x1b[6n\x1bc\x1b"
    "\x9b2J\x9d0;x\x9c\r\b\b\x00\u202e\u2066\u200b\ufeff\x7f"
)
HOSTILE = f"A{CONTROL}Z {MARKUP}"


def assert_harmless(shown: Stage) -> None:
    assert visible(shown.text, multiline=True) == shown.text


@SIZES
async def test_hostile_text_is_literal_on_every_surface(size):
    write_chat([(HOSTILE, HOSTILE)], title=MARKUP, system=HOSTILE)
    engine = ScriptedEngine(
        [Answer((HOSTILE,), error=StepFailed(HOSTILE, hint=HOSTILE))],
        ready=ReadyEvent(HOSTILE, HOSTILE, HOSTILE, 8_192, 0.1),
        load_stages=[LoadEvent(HOSTILE, 1, 2, HOSTILE)],
    )
    with open_service(engine) as service:
        async with stage(service, engine, size=size, is_loaded=False) as shown:
            engine._emit([LoadEvent(HOSTILE, 1, 2, HOSTILE)])
            await shown.beat()
            assert "A␛]52" in shown.text
            assert_harmless(shown)
            engine.load()
            await shown.beat()
            assert_harmless(shown)
            shown.app.commands.run("rename")
            await shown.settle()
            assert_harmless(shown)
            await shown.press("escape")
            await shown.ask(HOSTILE.replace("\r", ""))
            await shown.answer()
            assert "A␛]52;c;SGVsbG8=␇" in shown.text
            assert "[data: /m?id=7-]" in shown.text
            assert_harmless(shown)
            for name in ("palette", "switch_chat", "help", "sidebar"):
                shown.app.commands.run(name)
                await shown.settle()
                assert_harmless(shown)
                await shown.press("escape")
            shown.app.tell(HOSTILE)
            shown.app.tell_error(DiskFull(HOSTILE, hint=HOSTILE))
            shown.app._bridge.put((SavingFailed(DiskFull(HOSTILE)),))
            await shown.beat()
            assert_harmless(shown)
            shown.app.commands.run("delete")
            await shown.beat()
            await shown.until_shown("^Z brings it back")
            assert_harmless(shown)
            engine.fail(BadModelFile(HOSTILE, hint=HOSTILE))
            await shown.until_shown("no model")
            assert_harmless(shown)


async def test_stored_text_is_untouched():
    # the history keeps everything but NUL
    sent = CONTROL.replace("\x00", "")
    engine = ScriptedEngine([(sent, "end")])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.answer()
            assert shown.last_answer.text == sent + "end"
            (chat,) = service.chats()
            assert last_text(service, chat.id) == sent + "end"


async def test_hostile_titles_are_literal_in_the_list():
    write_chat([("q", "a")], title=f"[red]x[/] {MARKUP}")
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            assert "[red]x[/] ([sys" in shown.text
            shown.sidebar.focus()
            await shown.beat()
            assert_harmless(shown)


@pytest.mark.parametrize(
    "source",
    [
        *("| A | B |\n| --- | ---", "# H [/test]", "- [ ] x", "1. ", "![a](", "<details>"),
        *(">" * 200, "```\n[/b]", "[l](https://x", "&#27;[2J", "**[b]"),
    ],
)
async def test_half_written_markdown_streams_without_failing(source):
    engine = ScriptedEngine([tuple(source)])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            for _ in range(len(source) + 2):
                engine.step()
                shown.app.beat()
            await shown.answer()
            assert_harmless(shown)


async def test_a_web_link_is_shown_before_it_is_opened(monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opener(opened))
    monkeypatch.setenv("DISPLAY", ":0")
    engine = ScriptedEngine([("[label](https://example.invalid/a?b=[c])",)])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.answer()
            await click_text(shown, "label")
            assert isinstance(shown.dialog, ConfirmScreen)
            assert "https://example.invalid/a?b=" in shown.text
            assert opened == []
            await shown.press("y")
            assert len(opened) == 1


@pytest.mark.parametrize("href", ["nofile.md", "file:///etc/passwd", "javascript:x"])
async def test_other_links_are_refused_and_said_so(monkeypatch, href):
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opener(opened))
    engine = ScriptedEngine([(f"[label]({href})",)])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.answer()
            await click_text(shown, "label")
            await shown.until_shown("Not opened")
            assert shown.dialog is None
            assert opened == []


async def test_a_model_with_a_hostile_name_does_no_harm(monkeypatch):
    monkeypatch.setattr(FakeChatModel, "name", HOSTILE)
    engine = ScriptedEngine(ready=ReadyEvent(HOSTILE, "cpu", "float32", 8_192, 0.1))
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("x")
            await shown.answer()
            assert "A␛]52" in shown.text
            assert_harmless(shown)


def opener(opened: list[str]) -> Callable[[str], bool]:
    def open_url(url: str) -> bool:
        opened.append(url)
        return True

    return open_url


async def click_text(shown: Stage, text: str) -> None:
    rows = shown.text.split("\n")
    row = next(y for y, line in enumerate(rows) if text in line)
    await shown.pilot.click(offset=(rows[row].index(text) + 1, row))
    await shown.settle()
