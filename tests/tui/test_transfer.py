"""Chats to files and back, by slash commands and from the history screen."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from localpaged.chat.portable.exporting import export_to
from localpaged.chat.portable.file_format import FileFormat
from localpaged.chat.portable.report import ImportProgress
from localpaged.store.store import Store
from localpaged.tui.importing import Importing
from testkit.builders import make_chat
from testkit.past_chats import write_chat
from testkit.screens import open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

HOSTILE = "A\x1b[2J\u202e [b]x[/]"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands write when they are told no place."""
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    return working


async def test_a_chat_is_exported_into_the_working_folder(folder):
    write_chat([("question", HOSTILE)], title="Fruit")
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/export")
            await shown.until(lambda: (folder / "Fruit.md").exists())
            told = f"Wrote {folder / 'Fruit.md'}"
            await shown.until(lambda: told in [note.message for note in shown.app._notifications])
            await shown.say("/export md")
            await shown.until(lambda: (folder / "Fruit-2.md").exists())
            assert HOSTILE in (folder / "Fruit.md").read_text()
            await shown.say("/export json out.json")
            await shown.until(lambda: (folder / "out.json").exists())
            assert json.loads((folder / "out.json").read_text())["chats"][0]["title"] == "Fruit"
            await shown.say("/export md Fruit.md")
            await shown.until_shown("there already")
            shown.transcript.focus()
            await shown.press("x")
            await shown.until(lambda: (folder / "Fruit-3.md").exists())
            await shown.press("f6", "tab")
            await shown.until_shown("1 chat")
            await shown.press("x")
            await shown.until(lambda: (folder / "Fruit-4.md").exists())


async def test_wrong_use_gives_the_command_back():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/export pdf")
            await shown.until_shown("md or json")
            assert shown.prompt.text == "/export pdf"
            shown.prompt.clear()
            await shown.say("/export md")
            await shown.until_shown("no chat to export")
            shown.prompt.clear()
            await shown.say("/import nothing.json")
            await shown.until_shown("is not there")
            shown.prompt.clear()
            await shown.say("/import '~nobody-has-this-name/x y'")
            await shown.until_shown("~nobody-has-this-name/x y is not there")


async def test_a_chat_is_imported_and_opened(folder, tmp_path):
    elsewhere = Store.open(tmp_path / "elsewhere.db")
    make_chat(elsewhere, chat_id="0" * 26, texts=["about quinces", HOSTILE])
    export_to(elsewhere, ["0" * 26], FileFormat.JSON, folder / "in.json")
    elsewhere.close()
    write_chat([("question", "answer")], title="Fruit")
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/import in.json")
            await shown.until_shown("Imported 1 chat")
            assert "about quinces" in shown.text
            assert len(shown.app.workspace.sessions) == 2
            await shown.say('/import "in.json"')
            await shown.until_shown("1 here already")
            assert len(service.chats()) == 2


async def test_what_cannot_be_read_is_told_and_the_rest_is_there(folder):
    good = {
        "id": "1" * 26,
        "title": "Good",
        "tip": "a",
        "messages": [{"id": "a", "parent": None, "role": "user", "text": HOSTILE}],
    }
    chats = [{"title": HOSTILE}, good]
    record = {"format": "localpaged-chats", "version": 1, "chats": chats}
    (folder / "in.json").write_text(json.dumps(record))
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/import in.json")
            await shown.until_shown("Not read: chat 1")
            assert [chat.title for chat in service.chats()] == ["Good"]


def many_chats(path: Path, count: int) -> None:
    message = {"id": "a", "parent": None, "role": "user", "text": "q"}
    chats = [
        {"id": f"{number:026}", "title": f"Chat {number}", "tip": "a", "messages": [message]}
        for number in range(count)
    ]
    path.write_text(json.dumps({"format": "localpaged-chats", "version": 1, "chats": chats}))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """An import that waits behind its third chat until the event is set."""
    go_on = threading.Event()

    def take(importing: Importing, progress: ImportProgress) -> None:
        importing.progress = progress
        if progress.num_chats == 3:
            assert go_on.wait(10.0)

    monkeypatch.setattr(Importing, "take", take)
    return go_on


@SIZES
async def test_a_long_import_tells_how_far_it_is_and_ends_when_asked(folder, held, size):
    many_chats(folder / "in\x1b[2J.json", 9)
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            try:
                await shown.say("/import in\x1b[2J.json")
                await shown.until(lambda: "importing · 3 chats, " in shown.text)
                assert "% of the file · Esc ends it · in␛[2J.json" in shown.text
                await shown.press("escape")
                assert "ends after this chat" in shown.text
                assert "Imported" not in shown.text
            finally:
                held.set()
            await shown.until_shown("Imported 3 chats")
            told = [notice.message for notice in shown.app._notifications]
            assert any("because the import was stopped" in each for each in told)
            await shown.beat()
            assert "importing" not in shown.text
            assert len(service.chats()) == 3
            await shown.say("/import in\x1b[2J.json")
            await shown.until_shown("Imported 6 chats, 3 here already")


async def test_an_answer_is_stopped_before_an_import_is(folder, held):
    many_chats(folder / "in.json", 4)
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            try:
                await shown.ask("q")
                await shown.step()
                await shown.say("/import in.json")
                await shown.until_shown("importing")
                await shown.press("escape")
                assert not shown.app.workspace.imports[0].is_left
                await shown.answer()
                await shown.press("escape")
                assert shown.app.workspace.imports[0].is_left
            finally:
                held.set()
            await shown.until_shown("Imported 3 chats")
