"""However narrow the bottom line is, it tells the way to help; help begins with the place."""

from __future__ import annotations

import pytest

from localpaged.tui.hint_line import FIRST, SOON, Hint, fitted_runs
from localpaged.tui.keys import GROUPS, IN_BLOCKS, IN_COMPARE, IN_HISTORY, IN_TOKENS, IN_TRANSCRIPT
from localpaged.tui.paint import cells_of
from localpaged.tui.screens.help import HelpScreen
from testkit.comparing import comparing, finish
from testkit.screens import Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

HINTS = [Hint("a", "first"), Hint("b", "second"), Hint("c", "third", SOON), Hint("F1", "x", FIRST)]


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (99, "a first   b second   c third   F1 x"),
        (35, "a first   b second   c third   F1 x"),
        (34, "a first   c third   F1 x"),
        (17, "c third   F1 x"),
        (13, "F1 x"),
        (3, ""),
    ],
)
def test_what_matters_least_is_left_out_first_and_the_order_stays(cells, told):
    runs = fitted_runs(HINTS, cells)
    assert "".join(run.text for run in runs) == told
    assert cells_of(runs) <= cells


async def help_is_told_and_begins_with(shown: Stage, group: str) -> None:
    assert "F1 help" in shown.text.split("\n")[-1]
    await shown.press("f1")
    assert isinstance(shown.dialog, HelpScreen)
    title = shown.text.index("Keys and commands")
    places = {name: shown.text.find(name, title) for name in GROUPS}
    assert min(place for place in places.values() if place > 0) == places[group]
    await shown.press("f1")
    assert not isinstance(shown.dialog, HelpScreen)


@SIZES
async def test_every_screen_over_the_chat_tells_its_keys(size):
    engine = ScriptedEngine(["an ", "answer"])
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("x")
            await shown.answer()
            for key, group in (("f3", IN_BLOCKS), ("f6", IN_HISTORY)):
                await shown.press(key)
                await help_is_told_and_begins_with(shown, group)
                await shown.press("escape")
                assert shown.dialog is None
            shown.transcript.focus()
            await shown.press("t")
            await help_is_told_and_begins_with(shown, IN_TOKENS)


@SIZES
async def test_the_compare_screen_tells_its_keys(size):
    async with comparing("/compare n=2 Sky?", size=size) as (shown, screen):
        await shown.step()
        # while something runs there is more to tell
        await help_is_told_and_begins_with(shown, IN_COMPARE)
        await finish(shown, screen)
        await help_is_told_and_begins_with(shown, IN_COMPARE)
        await shown.press("i")
        await help_is_told_and_begins_with(shown, IN_COMPARE)


@SIZES
async def test_the_transcript_tells_the_way_to_help_and_to_stop_while_an_answer_runs(size):
    engine = ScriptedEngine([["word "] * 30])
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("x")
            await shown.step(2)
            await shown.press("tab")
            assert "Esc stop" in shown.text.split("\n")[-1]
            assert "^P commands" in shown.text.split("\n")[-1]
            await help_is_told_and_begins_with(shown, IN_TRANSCRIPT)
