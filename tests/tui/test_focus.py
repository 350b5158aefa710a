"""Where keys go: prompt, transcript, list; shown, told in the footer, and no text is lost."""

from __future__ import annotations

from testkit.screens import LARGE, SMALL, Stage, open_service, screen_lines, stage
from testkit.scripted_engine import ScriptedEngine


def edges(shown: Stage) -> tuple[bool, bool]:
    """Whether the edges of transcript and list are marked."""
    left = shown.transcript.region.x
    lines = screen_lines(shown.app)[3:20]
    return all(line[left] == "▌" for line in lines), all(line[0] == "▌" for line in lines)


async def test_tab_goes_from_prompt_to_transcript_to_list_and_the_focus_is_seen():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("x")
            await shown.answer()
            assert edges(shown) == (False, False)
            await shown.press("tab")
            assert shown.app.focused is shown.transcript
            assert edges(shown) == (True, False)
            await shown.press("tab")
            assert shown.app.focused is shown.sidebar
            assert edges(shown) == (False, True)
            await shown.press("tab")
            assert shown.app.focused is shown.prompt
            await shown.press("shift+tab")
            assert shown.app.focused is shown.sidebar


async def test_a_list_that_is_not_shown_takes_no_focus():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=SMALL) as shown:
            await shown.press("tab", "tab")
            assert shown.app.focused is shown.prompt


async def test_the_footer_has_the_keys_of_what_has_the_focus():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("x")
            await shown.answer()
            assert "Enter send" in screen_lines(shown.app)[-1]
            await shown.press("tab")
            footer = screen_lines(shown.app)[-1]
            assert all(key in footer for key in ("j k messages", "y copy", "Y code", "F1 help"))
            assert "Enter send" not in footer
            await shown.press("tab")
            footer = screen_lines(shown.app)[-1]
            assert all(key in footer for key in ("Enter open", "r rename", "d delete"))
            assert "y copy" not in footer


async def test_text_typed_elsewhere_goes_to_the_prompt():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("x")
            await shown.answer()
            await shown.burst("tab", *"Hello")
            assert shown.app.focused is shown.prompt
            assert shown.prompt.text == "Hello"
            await shown.burst("tab", "tab", *" you, dear")
            assert shown.prompt.text == "Hello you, dear"


async def test_keys_that_are_bound_elsewhere_stay_there():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("x")
            await shown.answer()
            await shown.press("tab", "k", "g")
            assert shown.app.focused is shown.transcript
            assert shown.prompt.text == ""


async def test_the_palette_tells_where_a_key_works():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            for name, notes in (
                ("the chat", ("r in list", "d in list")),
                ("copy", ("y in transcript", "Y in transcript")),
                ("new chat", ("^N",)),
            ):
                await shown.press("ctrl+p")
                await shown.burst(*("space" if char == " " else char for char in name))
                assert all(f"{note}  " in shown.text for note in notes), notes
                await shown.press("escape")
