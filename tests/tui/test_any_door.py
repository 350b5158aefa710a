"""Every screen and dialog, opened and left in any order with keys that mean something else there.

Nothing breaks, the terminal shows what there is, and nothing of what was closed is left.
"""

from __future__ import annotations

import gc
from random import Random

import pytest
from textual.screen import Screen

from testkit.doors import DOORS, go_back
from testkit.glass import Looker
from testkit.past_chats import write_chat
from testkit.screens import LARGE, SMALL, Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine

KEYS = (
    *("up", "down", "left", "right", "enter", "tab", "pageup", "end", "home", "space", "backspace"),
    *("j", "k", "G", "z", "d", "r", "n", "t", "y", "b", "i", "K", "v", "m", "x", "f", "a", "9"),
    *("slash", "left_square_bracket", "ctrl+t", "ctrl+r", "ctrl+f", "ctrl+b", "ctrl+n", "ctrl+p"),
    *("f1", "f3", "f4", "f6", "alt+left", "ctrl+z", "ctrl+a", "é", "漢"),
)
SIZES = (SMALL, LARGE, (60, 9), (20, 5), (10, 3), (121, 15), (1, 1))
ANSWER = [
    "because\n",
    "- item\n",
    "```\n",
    "x = 1\n",
    "```\n",
    "漢字 ",
    "\x1b[31m",
    "a\u202eb ",
    "end.",
]
MOST_SCREENS = 3
"""The chat, what lies over it, and one that Textual still lets go."""


async def finish(shown: Stage) -> None:
    """Let everything be answered that keys may have asked."""

    def is_done() -> bool:
        shown.engine.run_until_idle()
        shown.app.beat()
        return not shown.app.workspace.running

    await shown.until(is_done)
    await shown.settle()


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_door_opens_and_closes_whatever_is_pressed_behind_it(
    seed, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)  # an export goes there
    random = Random(seed)
    engine = ScriptedEngine([ANSWER])
    write_chat([("q", "an answer")])
    doors = list(DOORS)
    random.shuffle(doors)
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            looker = Looker(shown)
            for door in doors:
                await DOORS[door](shown)
                if random.random() < 0.4:
                    await shown.resize(*random.choice(SIZES))
                for key in random.sample(KEYS, 2):
                    await shown.burst(key)
                await looker.check()
                await go_back(shown)
                await finish(shown)
                shown.prompt.clear()
                shown.prompt.focus()
            await shown.resize(*LARGE)
            await looker.check()
            gc.collect()
            screens = [each for each in gc.get_objects() if issubclass(type(each), Screen)]
            assert sum(each.app is shown.app for each in screens if each.is_running) <= MOST_SCREENS
