"""One table of what can be done; keys, palette, slash commands and help agree with it."""

from __future__ import annotations

import pytest
from textual.binding import Binding

from localpaged.tui.keys import ACTIONS, BY_SLASH, GROUPS, WHOLE_SCREENS, commands
from localpaged.tui.screens.chat import ChatScreen
from localpaged.tui.screens.help import help_content
from testkit.screens import LARGE, open_service, stage
from testkit.scripted_engine import ScriptedEngine

OF_CHAT = {action.id for action in ACTIONS if action.is_of_chat and (action.keys or action.slash)}


def test_ids_keys_and_slash_names_are_unique():
    ids = [action.id for action in ACTIONS]
    slashes = [action.slash for action in ACTIONS if action.slash]
    places = [
        [key for action in ACTIONS if is_there(action) for key in action.keys.split(",") if key]
        for is_there in (
            lambda action: action.is_of_chat,
            *(lambda action, group=group: action.group == group for group in WHOLE_SCREENS),
        )
    ]
    for names in (ids, slashes, *places):
        assert len(names) == len(set(names))


def test_help_has_every_action_in_a_group():
    text = help_content().plain
    for action in ACTIONS:
        assert action.label in text
        assert action.group in GROUPS
        assert f"/{action.slash}" in text


def test_help_fits_eighty_columns():
    assert max(len(line) for line in help_content().plain.split("\n")) <= 69


@pytest.mark.parametrize(
    ("keys", "group"),
    [((), "Writing"), (("tab",), "In the transcript"), (("tab", "tab"), "In the list of chats")],
)
async def test_help_begins_with_the_keys_of_what_has_the_focus(keys, group):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.press(*keys, "f1")
            title = shown.text.index("Keys and commands")
            places = {name: shown.text.find(name, title) for name in GROUPS}
            assert min(place for place in places.values() if place > 0) == places[group]


async def test_everything_that_is_bound_or_a_command_does_something():
    with open_service(ScriptedEngine()) as service:
        async with stage(service, ScriptedEngine(), is_loaded=False) as shown:
            assert OF_CHAT - {"send"} <= set(shown.app.commands.deeds)
            assert set(shown.app.commands.deeds) <= {action.id for action in ACTIONS}


def test_the_screen_binds_every_key_of_the_table():
    bound = {b.id for b in ChatScreen.BINDINGS if isinstance(b, Binding) and b.id}
    assert bound == OF_CHAT


def test_every_command_has_a_slash_name():
    assert {action.id for action in commands()} == {action.id for action in BY_SLASH.values()}


@pytest.mark.parametrize(
    ("typed", "label"), [("stats", "Speed, memory"), ("/title", "Rename the chat"), ("why", "Why")]
)
async def test_the_palette_finds_a_command_by_its_name_first(typed, label):
    with open_service(ScriptedEngine()) as service:
        async with stage(service, ScriptedEngine(), size=LARGE) as shown:
            await shown.press("ctrl+p", *typed)
            rows = shown.text.split("\n")
            at = next(at for at, row in enumerate(rows) if typed in row)
            assert label in next(row for row in rows[at + 1 :] if row[30:60].strip())
