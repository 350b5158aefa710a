"""Looks: every role has its colour, what is to be read can be read, and few colours are enough."""

from __future__ import annotations

import pytest
from textual.color import Color

from localpaged.tui.markdown.line import Role
from localpaged.tui.preferences import saved_theme
from localpaged.tui.theme import ANSI, CONTRAST, DARK, LIGHT, NAMES, PLAIN, known_theme, themes
from testkit.screens import LARGE, open_service, stage
from testkit.scripted_engine import ScriptedEngine

BY_NAME = {theme.name: theme for theme in themes()}


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = (c / 255 for c in Color.parse(colour).rgb)
        r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", [*NAMES.values(), PLAIN])
def test_every_role_has_a_colour(name):
    assert {f"role-{role}" for role in Role} <= set(BY_NAME[name].variables)


@pytest.mark.parametrize(
    ("name", "least", "roles"),
    [
        (DARK, 4.5, (Role.TEXT, Role.DIM, Role.USER, Role.ERROR, Role.WARNING, Role.ACCENT)),
        (LIGHT, 4.5, (Role.TEXT, Role.DIM, Role.USER, Role.ERROR, Role.WARNING, Role.ACCENT)),
        (CONTRAST, 7.0, tuple(Role)),
    ],
)
def test_what_is_to_be_read_stands_out_from_its_ground(name, least, roles):
    theme = BY_NAME[name]
    for role in roles:
        colour = theme.variables[f"role-{role}"]
        grounds = [theme.background or "", theme.variables["code-ground"]]
        assert min(contrast(colour, ground) for ground in grounds) >= least, role


@pytest.mark.parametrize("name", [ANSI, PLAIN])
def test_few_colours_are_the_terminals_own(name):
    variables = BY_NAME[name].variables
    assert all(variables[f"role-{role}"].startswith("ansi_") for role in Role)
    assert variables["selection-ground"].startswith("ansi_")


async def test_a_theme_is_chosen_by_its_name_and_remembered():
    engine = ScriptedEngine(lambda request: ["# Title\n`code`\n\n```py\nx = 1\n```\n"])
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("x")
            await shown.answer()
            for name in NAMES:
                await shown.say(f"/theme {name}")
                assert shown.app.theme == known_theme(name) == saved_theme()
                assert "Title" in shown.text
                await shown.press("ctrl+o", "escape")
            await shown.say("/theme [red]pink")
            await shown.until_shown("There is no theme [red]pink")
            assert shown.prompt.text == "/theme [red]pink"
