"""What a flush costs does not grow with the answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from textual.screen import Screen
from textual.strip import Strip

from localpaged.tui.markdown.blocks import markdown_lines
from localpaged.tui.markdown.line import Line
from localpaged.tui.paint import Painter
from testkit.past_chats import write_chat
from testkit.screens import LARGE, open_service, stage
from testkit.scripted_engine import ScriptedEngine

PIECE_CHARS = 5
PIECES_A_BEAT = 40
PROSE = "Some **words** with `code`, long enough to wrap once or twice.\n\n- a\n- b\n\n"
CODE = "def f(x):\n    return x + 1  # one more\n\n"
# numbered: an answer that only repeats itself would be ended
MANY_PROSE = "".join(f"{number}. {PROSE}" for number in range(400))[:30_000]
MANY_CODE = "".join(f"# {number}\n{CODE}" for number in range(800))[:30_000]
TEXT = f"{MANY_PROSE}\n\n```python\n{MANY_CODE}\n```\n"


async def test_sixty_thousand_characters_stream_at_a_flat_cost_and_end_like_the_whole():
    pieces = [TEXT[at : at + PIECE_CHARS] for at in range(0, len(TEXT), PIECE_CHARS)]
    engine = ScriptedEngine([pieces])
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("x")
            costs_s = []
            for number in range(len(pieces) // PIECES_A_BEAT):
                for _ in range(PIECES_A_BEAT):
                    engine.step()
                started = time.perf_counter()
                shown.app.beat()
                costs_s.append(time.perf_counter() - started)
                if number % 20 == 0:
                    await shown.settle()
            tenth = len(costs_s) // 10
            assert median(costs_s[-tenth:]) < 4 * median(costs_s[tenth : 2 * tenth]) + 0.01
            started = time.perf_counter()
            await shown.pilot._wait_for_screen()
            shown.prompt.insert("a")
            await shown.until(lambda: "❯ a" in shown.text)
            assert time.perf_counter() - started < 0.5
            await shown.answer()
            cell = shown.transcript.document.cells[-1]
            drawn = [cell[index]._replace(prefix=()) for index in range(len(cell) - 2)]
            width = shown.transcript.column - 2
            assert drawn == [line._replace(prefix=()) for line in markdown_lines(TEXT, width)]


async def test_a_chat_of_a_thousand_turns_opens_at_once():
    answer = PROSE + "```python\n" + CODE + "```\n"
    write_chat([("newest", "here")])
    chat_id = write_chat([(f"question {n}", answer) for n in range(1_000)])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            other = shown.app.workspace.find(chat_id)
            assert other is not None
            if other is shown.app.workspace.current:
                shown.app.commands.chats.number(2)
                other.is_loaded = False
                shown.transcript.forget(other)
            # Of this thread alone: other programs are not what opening a chat costs.
            started = time.thread_time()
            shown.app.commands.chats.go_to(other)
            assert time.thread_time() - started < 0.5
            await shown.until_shown("question 999")


async def test_a_running_answer_costs_no_layout(monkeypatch):
    engine = ScriptedEngine([["word "] * 50])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.step(10)
            layouts: list[int] = []
            original = Screen._refresh_layout

            def counting(screen: Screen[Any], *arguments: Any, **options: Any) -> None:
                layouts.append(1)
                original(screen, *arguments, **options)

            monkeypatch.setattr(Screen, "_refresh_layout", counting)
            for _ in range(20):
                engine.step()
                await shown.beat()
            assert layouts == []


async def test_of_a_paragraph_that_grows_only_the_rows_that_differ_are_painted(monkeypatch):
    engine = ScriptedEngine([["lighthouse "] * 120])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.step(60)
            painted: list[str] = []
            original: Callable[..., Strip] = Painter.strip

            def counting(painter: Painter, line: Line, **options: Any) -> Strip:
                painted.append(line.plain)
                return original(painter, line, **options)

            monkeypatch.setattr(Painter, "strip", counting)
            rows = shown.transcript.document.num_lines
            steps = 12
            for _ in range(steps):
                engine.step()
                await shown.beat()
            answer_rows = [text for text in painted if text.startswith("lighthouse")]
            gained = shown.transcript.document.num_lines - rows
            assert gained >= 1
            # each step its own row, and that which a word was wrapped into
            assert steps <= len(answer_rows) <= steps + 2 * gained
