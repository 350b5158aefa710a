"""Little room: the least needed goes first, nothing is cut in mid-word."""

from __future__ import annotations

import pytest

from testkit.glass import Looker
from testkit.screens import LARGE, open_service, screen_lines, stage
from testkit.scripted_engine import ScriptedEngine

LONG = tuple(f"word{n} " for n in range(400))


@pytest.mark.parametrize("size", [(60, 16), (40, 16), (34, 8)])
async def test_the_way_on_is_kept_and_the_cost_is_dropped_part_by_part(size):
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("x" * 2_000)
            await shown.step(60)
            await shown.press("escape")
            await shown.answer()
            (line,) = [line for line in screen_lines(shown.app) if "F5 continues" in line]
            assert line.strip(" ▁▂▃▄▅▆▇█▎").startswith("■ stopped · ")
            for part in line.strip(" ▁▂▃▄▅▆▇█▎").split(" · "):
                assert part.split()[-1] in {"stopped", "tok", "tok/s", "s", "new", "continues"}


async def test_a_narrower_terminal_cuts_no_cost_line_and_a_wider_one_shows_it_whole():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine, size=(100, 24)) as shown:
            await shown.ask("x" * 2_000)
            await shown.step(60)
            await shown.press("escape")
            await shown.answer()
            (whole,) = [line for line in screen_lines(shown.app) if "■ stopped" in line]
            await shown.resize(40, 16)
            (line,) = [line for line in screen_lines(shown.app) if "■ stopped" in line]
            assert "F5 continues" in line
            await shown.resize(100, 24)
            assert whole in screen_lines(shown.app)


async def test_the_way_on_has_one_line_on_thirty_columns():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine, size=(30, 12)) as shown:
            await shown.ask("x")
            await shown.step(9)
            await shown.press("escape")
            await shown.answer()
            (line,) = [line for line in screen_lines(shown.app) if "F5" in line]
            assert line.strip(" ▁▂▃▄▅▆▇█▎") == "■ F5 continues"


async def test_the_keys_have_a_line_down_to_sixteen_rows():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=(60, 16)) as shown:
            assert screen_lines(shown.app)[-1].strip().startswith("Enter send")
            assert "KV " in shown.text


async def test_the_smallest_screen_shows_the_prompt_and_the_end_of_the_answer():
    engine = ScriptedEngine([["one\n\n", "two\n\n", "three\n\n", "the end"]])
    with open_service(engine) as service:
        async with stage(service, engine, size=(30, 8)) as shown:
            await shown.ask("x")
            await shown.answer()
            await shown.write("next")
            assert "the end" in shown.text
            assert "❯ next" in shown.text


async def test_a_narrow_title_line_tells_the_share_of_the_context_alone():
    engine = ScriptedEngine([LONG[:20]])
    with open_service(engine) as service:
        async with stage(service, engine, size=(40, 16)) as shown:
            await shown.ask("What is a rather long question?")
            await shown.answer()
            assert "What is a rather" in screen_lines(shown.app)[1]
            assert screen_lines(shown.app)[1].rstrip().endswith("context 1 %")


async def test_narrow_offers_are_not_cut_in_mid_word():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=(40, 16)) as shown:
            await shown.write("/se")
            await shown.until_shown("/set")
            (line,) = [line for line in screen_lines(shown.app) if "/set " in line]
            assert line.strip() == "› /set temp=0.7 top_p=0.9"


async def test_an_empty_chat_begins_at_its_first_line():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine, size=(40, 16)) as shown:
            await shown.until_shown("Every answer is computed on this")
            await shown.ask("x")
            await shown.step(60)
            assert "word55" in shown.text


async def test_an_answer_of_a_compare_has_rows_on_the_smallest_screen():
    engine = ScriptedEngine([["one\n\n", "two\n\n", "three\n\n", "the end"]])
    with open_service(engine) as service:
        async with stage(service, engine, size=(30, 9)) as shown:
            shown.app.commands.told["compare"]("n=2 tell")
            await shown.until(lambda: len(engine.submitted) == 2)
            await shown.answer()
            await shown.until_shown("the end")
            assert "three" in shown.text
            await shown.resize(30, 20)
            assert "read once" in shown.text


async def test_what_is_written_is_seen_on_the_last_row_there_is():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("x")
            await shown.press("ctrl+n")
            looker = Looker(shown)
            await shown.write("written\nhere")
            await shown.step(3)
            for height in (5, 4, 3, 2, 1, 2, 3, 4, 5):
                await shown.resize(30, height)
                await looker.check()
                assert "here" in screen_lines(shown.app)[-1], height
            await shown.resize(*LARGE)
            await looker.check()
            assert "1 other chat generating" in shown.text
