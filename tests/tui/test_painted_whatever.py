"""Whatever is done in whatever order, the terminal shows what a picture from nothing would."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from textual import events

from testkit.builders import ready_model
from testkit.fake_model import FakeChatModel
from testkit.fake_shelf import FakeShelf
from testkit.glass import Looker
from testkit.past_chats import write_chat
from testkit.screens import LARGE, SMALL, Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine

PIECES = (
    *("because\n", "# Head\n", "- item\n", "**bold** "),
    *("```python\n", "x = 1\n", "```\n", "| a | b |\n|---|---|\n| 1 | 2 |\n", "漢字", "e\u0301 "),
    *("\x1b[31mred ", "a\u202eb ", "> quote\n", "long" * 30, "\n\n1. one\n", "ｗｉｄｅ ", "end."),
)
THOUGHTS = [f"thought {number}\n\n" for number in range(9)]
ANSWER = ["<think>", *THOUGHTS, "</think>", *PIECES, *(f"word {number} " for number in range(99))]
KEYS = (
    *("up", "down", "enter", "escape", "tab", "pageup", "pagedown", "ctrl+end", "home", "j", "k"),
    *("ctrl+t", "ctrl+r", "ctrl+f", "ctrl+n", "alt+left", "alt+1", "ctrl+b", "ctrl+o", "ctrl+p"),
    *("f1", "f3", "f5", "f6", "z", "d", "g", "G", "e", "r", "n", "t", "w", "[", "space", "q"),
)
COMMANDS = (
    *("/find because", "/theme light", "/theme ansi", "/theme dark", "/compare n=2 x"),
    *(
        "/compare n=8 x",
        "/rename 漢字 e\u0301 ｗｉｄｅ",
        "/options",
        "/fork",
        "a question",
        "w " * 90,
    ),
)
SIZES = (SMALL, LARGE, (100, 30), (60, 9), (20, 5), (10, 3), (121, 15))
ACTIONS = st.one_of(
    st.tuples(st.just("step"), st.sampled_from([1, 3, 10])),
    st.tuples(st.just("press"), st.sampled_from(KEYS)),
    st.tuples(st.just("write"), st.sampled_from(COMMANDS)),
    st.tuples(st.just("resize"), st.sampled_from(SIZES)),
    st.tuples(st.just("wheel"), st.booleans()),
    st.tuples(st.just("drag"), st.tuples(*[st.floats(0, 1, exclude_max=True)] * 4)),
)


async def act(shown: Stage, kind: str, what: object) -> None:
    """Do one thing, as a user or the engine does it."""
    match kind, what:
        case "step", int(count):
            await shown.step(count)
        case "press", str(key):
            await shown.burst(key)
        case "write", str(text) if shown.dialog is None:
            shown.prompt.clear()
            await shown.write(text)
            await shown.burst("enter")
        case "resize", (int(width), int(height)):
            await shown.resize(width, height)
        case "wheel", bool(is_up):
            await mouse(shown, events.MouseScrollUp if is_up else events.MouseScrollDown, 0.5, 0.5)
        case "drag", (float(x), float(y), float(to_x), float(to_y)):
            await mouse(shown, events.MouseDown, x, y)
            await mouse(shown, events.MouseMove, to_x, to_y)
            await shown.step()
            await mouse(shown, events.MouseUp, to_x, to_y)


async def mouse(shown: Stage, kind: type[events.MouseEvent], x: float, y: float) -> None:
    """A mouse event, at shares of the screen."""
    width, height = shown.app.size
    at_x, at_y = int(x * width), int(y * height)
    event = kind(None, at_x, at_y, 0, 0, 1, False, False, False, screen_x=at_x, screen_y=at_y)
    shown.app.post_message(event)
    await shown.settle()


async def play(actions: Sequence[tuple[str, object]]) -> None:
    """Do one thing after another, and compare after each."""
    engine = ScriptedEngine([ANSWER])
    model = ready_model(FakeChatModel(thinks=True))
    write_chat([("q", "an answer")])
    with open_service(engine, model=model, shelf=FakeShelf("fake-model", "other")) as service:
        async with stage(service, engine, size=LARGE) as shown:
            looker = Looker(shown)
            await shown.ask("why?")
            for kind, what in actions:
                await act(shown, kind, what)
                if not shown.app.screen_stack:
                    return
                await looker.check()
                await shown.step()
                await looker.check()


@settings(max_examples=5, derandomize=True, database=None)
@given(st.lists(ACTIONS, min_size=6, max_size=12))
@example([("step", 1)] * 6)
@example([("press", "tab"), ("press", "k"), ("press", "k"), *[("step", 1)] * 9])
def test_the_terminal_shows_what_there_is(actions):
    with TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCALPAGED_HOME", home)
        asyncio.run(play(actions))
