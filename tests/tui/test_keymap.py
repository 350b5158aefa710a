"""Keys of the user's own: they work, the old ones do not, and every place tells the real ones."""

from __future__ import annotations

import pytest

from localpaged import paths
from localpaged.config_file import read_config
from localpaged.config_schema import THEMES
from localpaged.errors import ConfigError
from localpaged.tui.keymap import make_keymap
from localpaged.tui.keys import key_of, show_keymap
from localpaged.tui.screens.help import HelpScreen
from localpaged.tui.theme import NAMES
from testkit.screens import LARGE, SMALL, open_service, stage
from testkit.scripted_engine import ScriptedEngine

SIZES = pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "140x40"])


@pytest.fixture(autouse=True)
def usual_keys():
    yield
    show_keymap({})


def keymap_of(text: str) -> dict[str, str]:
    path = paths.config_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[keymap]\n{text}\n")
    return make_keymap(read_config())


@SIZES
async def test_another_key_works_and_footer_help_and_palette_tell_it(size):
    keymap = keymap_of('new_chat = "ctrl+e"\nhelp = ["f2", "alt+h"]\nresume = "f8"')
    engine = ScriptedEngine([["word "] * 50])
    with open_service(engine) as service:
        async with stage(service, engine, size=size, keymap=keymap) as shown:
            assert "^E new" in shown.text
            await shown.ask("x")
            await shown.step(3)
            await shown.press("escape")
            await shown.answer()
            assert "F8 continues" in shown.text
            await shown.press("ctrl+n")
            assert shown.app.workspace.current.entries
            await shown.press("ctrl+e")
            assert not shown.app.workspace.current.entries
            await shown.press("f1")
            assert shown.dialog is None
            await shown.press("alt+h")
            assert isinstance(shown.dialog, HelpScreen)
            await shown.press("escape", "ctrl+p", *"new chat")
            assert "^E" in shown.text


async def test_a_command_without_a_key_can_get_one():
    keymap = keymap_of('theme = "alt+t"\nrename = "alt+r"')
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, keymap=keymap) as shown:
            await shown.press("alt+t")
            assert "Which look" in shown.text
            await shown.press("escape")
            await shown.press("alt+r")
            assert "Rename this chat" in shown.text


async def test_two_actions_can_exchange_their_keys():
    keymap = keymap_of('new_chat = "ctrl+s"\nswitch_chat = "ctrl+n"')
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, keymap=keymap) as shown:
            await shown.ask("x")
            await shown.answer()
            await shown.press("ctrl+s")
            assert not shown.app.workspace.current.entries
            await shown.press("ctrl+n")
            assert shown.dialog is not None


@pytest.mark.parametrize(
    ("written", "key", "shown"),
    [
        ("ctrl+E", "ctrl+e", "^E"),
        ("^e", "ctrl+e", "^E"),
        ("Shift+Ctrl+F5", "ctrl+shift+f5", "Ctrl+Shift+F5"),
        ("alt+PgUp", "alt+pageup", "Alt+Pageup"),
        ("esc", "escape", "Escape"),
    ],
)
def test_keys_may_be_written_as_people_write_them(written, key, shown):
    keymap = keymap_of(f'stop = "{written}"')
    assert keymap == {"stop": key}
    show_keymap(keymap)
    assert key_of("stop") == shown


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('new_chatt = "ctrl+e"', ["no action 'new_chatt'", "did you mean new_chat?"]),
        ('send = "ctrl+e"', ["send", "stays as it is"]),
        ('new_chat = "ctrl+hyperspace"', ["there is no key 'ctrl+hyperspace'"]),
        ('new_chat = "banana+e"', ["there is no key 'banana+e'"]),
        ('new_chat = ""', ["there is no key ''"]),
        ('new_chat = "e"', ["'e' is for writing"]),
        ('new_chat = "enter"', ["'enter' is for writing"]),
        ('new_chat = "Alt+Enter"', ["'Alt+Enter' is for writing"]),
        ('new_chat = ["f9", "shift+return"]', ["'shift+return' is for writing"]),
        ('new_chat = "ctrl+i"', ["cannot be told from Tab"]),
        ('new_chat = "ctrl+s"', ["ctrl+s", "new_chat", "switch_chat"]),
        ('new_chat = "f7"\nhelp = "f7"', ["f7", "new_chat", "help"]),
        ('new_chat = "alt+3"', ["alt+3", "number"]),
        ("new_chat = []", ["keymap.new_chat must be a key or a list of keys"]),
        ("new_chat = 3", ["keymap.new_chat must be a key or a list of keys"]),
    ],
)
def test_a_keymap_that_cannot_be_says_so(text, parts):
    with pytest.raises(ConfigError) as raised:
        keymap_of(text)
    for part in ["config.toml", *parts]:
        assert part in raised.value.message
    assert raised.value.message.endswith((".", "?"))


def test_the_config_file_knows_the_themes_there_are():
    assert set(THEMES) == set(NAMES)
