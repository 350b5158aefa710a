"""The prompt on a page: every token of it, literally, and where it comes from."""

from __future__ import annotations

import pytest

from localpaged.chat.prompt_text import PromptPiece, PromptText
from localpaged.tui.screens.prompt_text import MOST_CHARS, PromptTextScreen, prompt_runs, title_of
from testkit.glass import Looker
from testkit.past_chats import write_chat
from testkit.screens import LARGE, Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

HOSTILE = "\x1b[2J[b]x[/b] <user> \u202eevil"


async def opened(shown: Stage) -> PromptTextScreen:
    await shown.say("/prompt")
    for _ in range(200):
        await shown.beat()
        if isinstance(shown.dialog, PromptTextScreen):
            return shown.dialog
        await shown.pilot.pause(0.005)
    raise AssertionError(shown.text)


@SIZES
async def test_what_was_read_is_shown_with_its_control_tokens(size):
    engine = ScriptedEngine([["an answer"]])
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.say("/system be brief")
            await shown.ask(HOSTILE)
            await shown.answer()
            num_tokens = len(engine.submitted[-1].prompt_ids)
            screen = await opened(shown)
            told = "".join(run.text for run in prompt_runs(screen._prompt))
            assert f"The prompt as it was read: {num_tokens} tokens, 0 of them" in shown.text
            assert "be brief" in told and "␛[2J[b]x[/b] <user> <U+202E>evil" in told
            assert "an answer" not in told
            controls = [piece.text for piece in screen._prompt.pieces if piece.is_control]
            # the role that somebody typed is text, like everything typed
            assert controls.count("<user>") == 1
            await Looker(shown).check()
            await shown.press("escape")
            assert shown.dialog is None and shown.prompt.has_focus


async def test_what_is_not_known_any_more_is_what_would_be_read_now():
    engine = ScriptedEngine()
    write_chat([("an old question", "an old answer")])
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await opened(shown)
            assert "The prompt as it would be read now" in shown.text
            assert "an old question" in shown.text


async def test_an_empty_chat_has_none():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/prompt")
            assert "no answer whose prompt" in shown.text


@pytest.mark.parametrize("sizes", [(90_000,), (10, 90_000, 10), (30_000, 30_000), (19_999, 1, 1)])
def test_of_a_long_prompt_the_middle_is_left_out_and_told(sizes):
    pieces = tuple(PromptPiece("x" * size, False) for size in sizes)
    runs = prompt_runs(PromptText("m", pieces, 9, True, None))
    text = "".join(run.text for run in runs)
    left_out = max(0, sum(sizes) - MOST_CHARS)
    assert text.count("x") == sum(sizes) - left_out
    assert (f"… {left_out:,} characters are left out here …" in text) == bool(left_out)


def test_the_title_counts():
    assert (
        title_of(PromptText("m", (), 1, False, 3)) == "The prompt as it would be read now: 1 token"
    )
