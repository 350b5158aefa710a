"""Chats to files and back, by slash commands and from the history screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localpaged.chat.portable.exporting import ChatFormat, export_to
from localpaged.store.store import Store
from testkit.builders import make_chat
from testkit.past_chats import write_chat
from testkit.screens import Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine

HOSTILE = "A\x1b[2J\u202e [b]x[/]"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands write when they are told no place."""
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)
    return working


async def command(shown: Stage, text: str) -> None:
    await shown.write(text)
    await shown.press("enter")


async def test_a_chat_is_exported_into_the_working_folder(folder):
    write_chat([("question", HOSTILE)], title="Fruit")
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await command(shown, "/export")
            await shown.until(lambda: (folder / "Fruit.md").exists())
            told = f"Wrote {folder / 'Fruit.md'}"
            await shown.until(lambda: told in [note.message for note in shown.app._notifications])
            await command(shown, "/export md")
            await shown.until(lambda: (folder / "Fruit-2.md").exists())
            assert HOSTILE in (folder / "Fruit.md").read_text()
            await command(shown, "/export json out.json")
            await shown.until(lambda: (folder / "out.json").exists())
            assert json.loads((folder / "out.json").read_text())["chats"][0]["title"] == "Fruit"
            await command(shown, "/export md Fruit.md")
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
            await command(shown, "/export pdf")
            await shown.until_shown("md or json")
            assert shown.prompt.text == "/export pdf"
            shown.prompt.clear()
            await command(shown, "/export md")
            await shown.until_shown("no chat to export")
            shown.prompt.clear()
            await command(shown, "/import nothing.json")
            await shown.until_shown("is not there")
            shown.prompt.clear()
            await command(shown, "/import '~nobody-has-this-name/x y'")
            await shown.until_shown("~nobody-has-this-name/x y is not there")


async def test_a_chat_is_imported_and_opened(folder, tmp_path):
    elsewhere = Store.open(tmp_path / "elsewhere.db")
    make_chat(elsewhere, chat_id="0" * 26, texts=["about quinces", HOSTILE])
    export_to(elsewhere, ["0" * 26], ChatFormat.JSON, folder / "in.json")
    elsewhere.close()
    write_chat([("question", "answer")], title="Fruit")
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await command(shown, "/import in.json")
            await shown.until_shown("Imported 1 chat")
            assert "about quinces" in shown.text
            assert len(shown.app.workspace.sessions) == 2
            await command(shown, '/import "in.json"')
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
            await command(shown, "/import in.json")
            await shown.until_shown("Not read: chat 1")
            assert [chat.title for chat in service.chats()] == ["Good"]
