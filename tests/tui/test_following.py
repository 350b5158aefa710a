"""The newest line stays in view until the user scrolls up, and again from the end on."""

from __future__ import annotations

from textual.events import MouseScrollUp

from testkit.screens import Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine

LINES = [f"line {n}  \n" for n in range(300)]


def top_line(shown: Stage) -> str:
    transcript = shown.transcript
    return transcript.document.line(round(transcript.scroll_y)).plain


async def test_the_newest_line_is_followed():
    engine = ScriptedEngine([LINES])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("go")
            await shown.step(120)
            assert "line 117" in shown.text
            await shown.step(60)
            assert "line 177" in shown.text


async def test_scrolling_up_keeps_the_place_and_the_end_key_resumes():
    engine = ScriptedEngine([LINES])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("go")
            await shown.step(50)
            await shown.press("pageup")
            held = top_line(shown)
            await shown.step(100)
            assert top_line(shown) == held
            assert "lines below" in shown.text
            await shown.press("end")
            assert shown.transcript.is_following
            await shown.step(50)
            assert "line 197" in shown.text
            assert "lines below" not in shown.text


async def test_one_turn_of_the_wheel_ends_following_and_scrolling_to_the_end_resumes_it():
    engine = ScriptedEngine([LINES])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("go")
            await shown.step(50)
            shown.transcript.post_message(
                MouseScrollUp(shown.transcript, 5, 5, 0, -1, 0, False, False, False)
            )
            await shown.settle()
            assert not shown.transcript.is_following
            held = top_line(shown)
            await shown.step(30)
            assert top_line(shown) == held
            for _ in range(5):
                await shown.press("pagedown")
            assert shown.transcript.is_following


async def test_a_resize_keeps_the_same_text_in_view():
    words = [f"w{n} " for n in range(900)]
    engine = ScriptedEngine([words])
    with open_service(engine) as service:
        async with stage(service, engine, size=(120, 40)) as shown:
            await shown.ask("go")
            await shown.step(800)
            await shown.press("pageup")
            first_word = top_line(shown).split()[0]
            for size in ((40, 12), (120, 40)):
                await shown.resize(*size)
                await shown.step(5)
                assert not shown.transcript.is_following
            place = round(shown.transcript.scroll_y)
            near = [shown.transcript.document.line(y).plain for y in range(place - 3, place + 4)]
            assert first_word in " ".join(near).split()


async def test_a_resize_while_following_stays_at_the_end():
    engine = ScriptedEngine([LINES])
    with open_service(engine) as service:
        async with stage(service, engine, size=(120, 40)) as shown:
            await shown.ask("go")
            await shown.step(100)
            await shown.resize(40, 14)
            await shown.step(20)
            assert "line 117" in shown.text


async def test_each_chat_keeps_its_own_place():
    engine = ScriptedEngine(lambda request: LINES)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("one")
            await shown.answer()
            await shown.press("pageup", "pageup")
            held = top_line(shown)
            await shown.press("ctrl+n")
            assert "several at the same time" in shown.text
            await shown.press("alt+left")
            assert top_line(shown) == held


async def test_nothing_is_told_of_lines_below_where_all_are_in_view():
    engine = ScriptedEngine([LINES[:24]])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("go")
            await shown.answer()
            shown.transcript.focus()
            await shown.press("g")
            assert "lines below" in shown.text
            await shown.resize(80, 60)
            await shown.beat()
            assert "below" not in shown.text
