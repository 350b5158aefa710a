"""How the chat looks by the config file: width, theme at the start."""

from __future__ import annotations

import pytest

from localpaged.config_file import UiSettings
from localpaged.tui.preferences import save_theme, saved_theme
from localpaged.tui.theme import CONTRAST, DARK, LIGHT
from testkit.screens import LARGE, open_service, stage
from testkit.scripted_engine import ScriptedEngine


@pytest.mark.parametrize(("width", "column"), [(40, 40), (100, 100), (0, 109)])
async def test_the_transcript_is_as_wide_as_was_wished(width, column):
    engine = ScriptedEngine([["word " * 100]])
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE, look=UiSettings(width=width)) as shown:
            await shown.ask("x")
            await shown.answer()
            assert shown.transcript.column == column
            longest = max(row.count("word") for row in shown.text.splitlines())
            assert longest == (column - 2) // 5


async def test_the_files_theme_goes_before_the_one_chosen_last_which_stays():
    save_theme(LIGHT)
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, look=UiSettings(theme="contrast")) as shown:
            assert shown.app.theme == CONTRAST
            await shown.say("/theme dark")
            assert shown.app.theme == DARK
            await shown.until_shown("the config file has the theme")
    assert saved_theme() == LIGHT
