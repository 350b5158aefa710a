"""The look that was chosen is there again after a restart."""

from __future__ import annotations

import stat

import pytest

from localpaged.tui.preferences import preferences_file, saved_theme
from localpaged.tui.theme import DARK, LIGHT
from testkit.screens import open_service, stage
from testkit.scripted_engine import ScriptedEngine


async def test_the_theme_survives_a_restart():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            assert shown.app.theme == DARK
            await shown.burst(*"/theme light", "enter")
            assert shown.app.theme == LIGHT
        async with stage(service, ScriptedEngine(), is_loaded=False) as shown:
            assert shown.app.theme == LIGHT
    assert stat.S_IMODE(preferences_file().stat().st_mode) == 0o600
    assert [path.name for path in preferences_file().parent.glob("look.json*")] == ["look.json"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b'{"theme": 3}', b'{"theme": "nix"}', b"\xff\x00", b"[" * 4_000]
)
async def test_a_damaged_file_is_ignored_and_written_anew(content):
    preferences_file().parent.mkdir(parents=True)
    preferences_file().write_bytes(content)
    with open_service(ScriptedEngine()) as service:
        async with stage(service, ScriptedEngine(), is_loaded=False) as shown:
            assert shown.app.theme == DARK
            shown.app.use_theme("light")
    assert saved_theme() == LIGHT


async def test_a_theme_that_cannot_be_remembered_is_told_and_used():
    with open_service(ScriptedEngine()) as service:
        async with stage(service, ScriptedEngine(), is_loaded=False) as shown:
            preferences_file().mkdir(parents=True)
            shown.app.use_theme("light")
            await shown.until_shown("not remembered")
            assert shown.app.theme == LIGHT


async def test_palette_and_help_tell_how_to_choose():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=(100, 200)) as shown:
            await shown.press("f1")
            (row,) = [line for line in shown.text.splitlines() if "Dark or light" in line]
            assert "/theme" in row
            assert "remembered" in row
            await shown.press("escape", "ctrl+p", *"dark")
            (row,) = [line for line in shown.text.splitlines() if "Dark or light" in line]
            assert "/theme" in row
            assert "remembered" in row
