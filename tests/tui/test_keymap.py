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
from testkit.comparing import comparing, finish
from testkit.screens import LARGE, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES


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
    keymap = keymap_of('new_chat = "ctrl+e"\nhelp = ["f9", "alt+h"]\nresume = "f8"')
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


@SIZES
async def test_keys_of_the_compare_screen_are_the_users_own_too(size):
    keymap = keymap_of(
        'compare_keep = "w"\ncompare_zoom = ["Z", "f7"]\ncompare_write = "alt+w"\nhelp = "f9"'
    )
    async with comparing("/compare n=2 Sky?", size=size, keymap=keymap) as (shown, screen):
        await finish(shown, screen)
        assert "w keep" in shown.text and "Z F7 zoom" in shown.text and "F9 help" in shown.text
        assert "Alt+W: go on with all" in shown.text or "Alt+W: go on with both" in shown.text
        await shown.press("k", "z")
        assert not screen.model.kept and not screen.model.is_zoomed
        await shown.press("w", "Z")
        assert len(screen.model.kept) == 1 and screen.model.is_zoomed
        await shown.press("f7", "f1")
        assert not screen.model.is_zoomed and shown.app.screen is screen
        await shown.press("f9")
        assert isinstance(shown.dialog, HelpScreen)
        assert "Z F7" in shown.text
        await shown.press("f9", "alt+w", "w")
        assert screen.prompt.text == "w"


async def test_what_opens_a_screen_closes_it_and_opens_its_help_whichever_key_it_has():
    keymap = keymap_of('blocks = "f7"\nbrowse = "f8"\nhelp = "f9"')
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE, keymap=keymap) as shown:
            for key in ("f7", "f8"):
                await shown.press(key, "f9")
                assert isinstance(shown.dialog, HelpScreen)
                await shown.press("f9", key)
                assert shown.dialog is None


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
        ('compare_keep = "z"', ["the key z", "compare_keep", "compare_zoom"]),
        ('compare_keep = "3"', ["the key 3", "compare_number", "compare_keep"]),
        ('compare_keep = "G"', ["the key G", "compare_scroll"]),
        ('compare_resume = "w"', ["'w' is for writing"]),
        ('compare_keep = "enter"', ["'enter' is for writing"]),
        ('help = "f5"\nresume = "f7"', ["f5", "help", "compare_resume"]),
        ('compare_back = "w"', ["compare_back", "stays as it is"]),
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
