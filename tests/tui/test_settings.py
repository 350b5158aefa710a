"""The page of settings: what holds and by whom, and the config file through the editor."""

from __future__ import annotations

import os
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.config_file import read_config
from localpaged.config_schema import KEYS
from localpaged.tui.app import LocalPagedApp
from localpaged.tui.screens.settings import SettingsScreen
from localpaged.tui.settings_text import settings_runs
from testkit.screens import LARGE, Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

HOSTILE = "\\u001b[2J[b]\\u202e\\u200b"


def write_config(text: str) -> Path:
    path = paths.config_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An editor that writes what stands in the file that is returned."""
    wanted = tmp_path / "wanted"
    script = tmp_path / "editor"
    script.write_text(f'#!/bin/sh\ncp "{wanted}" "$1"\n')
    script.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(script))
    monkeypatch.setattr(LocalPagedApp, "suspend", lambda app: nullcontext())
    return wanted


async def opened(shown: Stage) -> SettingsScreen:
    await shown.press("f2")
    screen = shown.app.screen
    assert isinstance(screen, SettingsScreen)
    return screen


async def until_told(shown: Stage, text: str) -> None:
    """Wait for a notice, wherever it is wrapped."""
    await shown.until(lambda: any(text in each.message for each in shown.app._notifications))


def test_every_key_of_the_config_file_is_told_with_its_source(home):
    write_config('[sampling]\ntemperature = 0.25\nstop = ["a", "b"]\n[keymap]\nstats = "f8"\n')
    rows = "".join(run.text for run in settings_runs(read_config(), 72)).split("\n")
    for key in KEYS:
        assert any(row.split()[:1] == [key.name] for row in rows), key.name
    row_of = {row.split()[0]: row.split()[1:] for row in rows if row}
    assert row_of["temperature"] == ["0.25", "config", "file"]
    assert row_of["stop"] == ["a,", "b", "config", "file"]
    assert row_of["stats"] == ["f8", "config", "file"]
    assert row_of["min_p"][-1] == "default"
    assert max(map(len, rows)) <= 72


@SIZES
async def test_the_page_opens_by_key_and_command_and_leads_back(home, size):
    write_config(f'[engine]\nmodel = "{HOSTILE}"\n')
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await opened(shown)
            assert "config.toml" in shown.text and "[b]" in shown.text
            for way in ("escape", "f2", "q"):
                await shown.press(way)
                assert shown.dialog is None
                await opened(shown)
            await shown.press("escape")
            await shown.say("/settings")
            assert isinstance(shown.dialog, SettingsScreen)


async def test_a_file_that_is_not_there_is_begun_and_is_its_owners_alone(home, editor):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await opened(shown)
            assert "not there yet" in shown.text
            editor.write_text('[ui]\ntheme = "light"\n')
            await shown.press("e")
            await until_told(shown, "It holds from the next start.")
            assert read_config().ui.theme == "light"
            assert stat.S_IMODE(paths.config_file().stat().st_mode) == 0o600


async def test_a_mistake_is_told_at_once_and_what_was_written_is_kept(home, editor):
    path = write_config('[ui]\ntheme = "dark"\n')
    path.chmod(0o644)
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await opened(shown)
            editor.write_text('[ui]\ntheme = "green"\n')
            await shown.press("e")
            await until_told(shown, "theme")
            assert path.read_text() == '[ui]\ntheme = "green"\n'
            assert stat.S_IMODE(path.stat().st_mode) == 0o644
            assert list(path.parent.iterdir()) == [path]
            # the page opens all the same, as the way to mend it
            await opened(shown)
            editor.write_text('[ui]\ntheme = "dark"\n')
            await shown.press("e")
            await until_told(shown, "It holds from the next start.")


async def test_a_pipe_in_its_place_is_not_waited_for(home, editor):
    paths.config_file().parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(paths.config_file())
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await opened(shown)
            await shown.press("e")
            await until_told(shown, "is not a file")
