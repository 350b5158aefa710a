"""The token view: how likely each token was, what else was, and going on from any of it."""

from __future__ import annotations

import pytest

from localpaged.engine.params import Request
from localpaged.errors import LocalPagedError
from localpaged.store.rows import Chat
from localpaged.store.store import Store
from localpaged.store.tree import make_message
from localpaged.store.writes import Write
from localpaged.tui.glyphs import ASCII
from localpaged.tui.screens.tokens import TokenScreen
from localpaged.tui.theme import LIGHT
from testkit.fake_model import END_ID, HALF_BASE, piece_id, read_prompt
from testkit.past_chats import write_chat
from testkit.screens import LARGE, TIMEOUT_S, Stage, open_service, stage
from testkit.scripted_engine import Answer, ScriptedEngine
from testkit.sizes import SIZES

PIECES = ("Paris", " is", " the", " cap", "ital", ".", "\n", "And", " so", " on")


def script(request: Request):
    """The answer, then what follows it in forks."""
    is_begun = request.is_continuation or request.prompt_logprobs is not None
    return (" and", " on") if is_begun else PIECES


async def look(shown: Stage) -> TokenScreen:
    """Open the view of the newest answer and wait until it is measured."""
    await shown.press("t")
    dialog = shown.dialog
    assert isinstance(dialog, TokenScreen)
    shown.engine.wait_submitted(len(shown.engine.submitted))
    for _ in range(100):
        shown.engine.run_until_idle()
        await shown.beat()
        if "measuring" not in shown.text:
            return dialog
        await shown.pilot.pause(0.005)
    raise AssertionError(shown.text)


@SIZES
async def test_an_answer_is_shown_with_what_was_likely_at_the_cursor(size):
    engine = ScriptedEngine(script)
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("capital?")
            await shown.answer()
            shown.transcript.focus()
            dialog = await look(shown)
            assert "Paris is the capital." in shown.text
            assert "And so on" in shown.text
            # the cursor is on the first surprise
            assert dialog.text.cursor == 4
            assert "5 of 10 · ital · id" in shown.text
            assert "1.8 %" in shown.text and "5.8 bits of surprise" in shown.text
            rows = [row.strip() for row in shown.text.split("\n")]
            assert any(row.startswith("90.5 %  ██████") and row.endswith("x") for row in rows)
            assert any("› " in row and "ital  ■ written" in row for row in rows)
            await shown.press("right")
            assert "6 of 10 · . · id" in shown.text
            await shown.press("right")
            assert "7 of 10 · ↵ · id" in shown.text
            await shown.press("n")
            assert dialog.text.cursor == 9
            await shown.press("n")
            assert dialog.text.cursor == 4
            await shown.press("N")
            assert dialog.text.cursor == 9
            await shown.press("home")
            assert "1 of 10 · Paris" in shown.text
            await shown.press("j")
            assert dialog.text.cursor == 7
            await shown.press("k", "end", "left")
            assert "9 of 10 · ␣so" in shown.text
            await shown.press("escape")
            assert shown.dialog is None
            assert shown.app.focused is shown.transcript


async def test_a_candidate_begins_a_fork_with_the_exact_tokens():
    engine = ScriptedEngine(script)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("capital?")
            await shown.answer()
            original = shown.app.workspace.current
            shown.transcript.focus()
            await look(shown)
            # the written token is the third of the list, the likeliest is the first
            await shown.press("up", "up", "enter")
            await shown.until(lambda: len(engine.submitted) == 3)
            assert shown.dialog is None
            assert shown.app.workspace.current is not original
            asked, _, forked = engine.submitted
            begun = (*map(piece_id, PIECES[:4]), ord("x"))
            assert forked.prompt_ids == (*asked.prompt_ids, *begun)
            await shown.answer()
            assert "Paris is the capx and on" in shown.text
            assert original.last_answer.text == "".join(PIECES)


async def test_f_forks_behind_the_cursor_and_an_end_is_refused():
    engine = ScriptedEngine(script)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("capital?")
            await shown.answer()
            shown.transcript.focus()
            await look(shown)
            await shown.press("home", "right", "f")
            await shown.until(lambda: len(engine.submitted) == 3)
            await shown.answer()
            assert "Paris is and on" in shown.text
            chats = len(service.chats())
            shown.transcript.focus()
            await look(shown)
            # the last candidate of a sure token is the end
            await shown.press("home", "up", "enter")
            await shown.until_shown("That token ends the answer")
            assert len(service.chats()) == chats


async def test_colours_can_be_switched_off_and_the_theme_changed():
    engine = ScriptedEngine(script)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("capital?")
            await shown.answer()
            shown.transcript.focus()
            dialog = await look(shown)

            def colours() -> set[object]:
                strip = dialog.text.render_line(0)
                return {s.style.color for s in strip if s.text.strip() and s.style}

            assert len(colours()) == 3
            await shown.press("c")
            assert len(colours()) == 2
            dark = colours()
            shown.app.theme = LIGHT
            await shown.settle()
            assert colours() != dark


async def test_the_command_looks_at_the_answer_of_the_marked_message():
    engine = ScriptedEngine([("one",), ("two",), ("x",)])
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            for text in ("first", "second"):
                await shown.ask(text)
                await shown.answer()
            shown.transcript.focus()
            await shown.press("k", "k", "k", "k")
            await look(shown)
            assert "1 of 1 · one" in shown.text
            assert read_prompt(engine.submitted[-1].prompt_ids)[0][1] == "first"
            await shown.press("q")
            await shown.say("/tokens")
            await shown.until(lambda: len(engine.submitted) == 4)
            engine.run_until_idle()
            await shown.until_shown("1 of 1 · two")


async def test_without_an_answer_or_with_a_running_one_it_says_so():
    engine = ScriptedEngine(script)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/tokens")
            assert "There is no answer to look at yet." in shown.text
            await shown.ask("capital?")
            await shown.step(2)
            await shown.say("/tokens")
            await shown.until_shown("The answer is still running.")
            assert shown.dialog is None


async def test_hostile_tokens_are_text_and_parts_of_characters_are_seen():
    halves = tuple(HALF_BASE + byte for byte in "é".encode())
    hostile = "[red]\x1b[31m\u202e\x00"
    answer = Answer(
        (hostile, "", "é", "\t\n", "end"),
        ((piece_id(hostile),), halves[:1], halves[1:], (piece_id("\t\n"),), (piece_id("end"),)),
    )
    engine = ScriptedEngine([answer, ("x",)])
    with open_service(engine) as service:
        async with stage(service, engine, glyphs=ASCII) as shown:
            await shown.ask("q")
            await shown.answer()
            shown.transcript.focus()
            await look(shown)
            await shown.press("home")
            assert "[red]␛[31m<U+202E>" in shown.text
            assert "<C3>é" in shown.text
            assert "\x1b" not in shown.text
            await shown.press("right")
            assert "2 of 5 | <C3>" in shown.text
            await shown.press("right", "right")
            assert "____$" in shown.text


async def test_an_old_answer_is_cut_anew_and_that_is_said():
    write_chat([("q", "Paris")])
    engine = ScriptedEngine([("x",)])
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            shown.transcript.focus()
            await look(shown)
            assert "cut anew from the text" in shown.text
            assert END_ID not in engine.submitted[0].prompt_ids[-5:]


async def test_long_answers_wrap_scroll_and_follow_the_cursor():
    engine = ScriptedEngine([tuple(f" word{n}" for n in range(900)), ("x",)])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("q")
            await shown.answer()
            shown.transcript.focus()
            dialog = await look(shown)
            await shown.press("end")
            assert "word899" in shown.text
            await shown.press("pageup", "pageup")
            row = dialog.text._rows.first_rows[dialog.text.cursor]
            assert round(dialog.text.scroll_y) <= row < round(dialog.text.scroll_y) + 9
            await shown.resize(60, 20)
            await shown.press("home")
            assert "word0 word1" in shown.text
            y = next(n for n, row in enumerate(shown.text.split("\n")) if "word5" in row)
            x = shown.text.split("\n")[y].index("word5")
            await shown.pilot.click(offset=(x + 1, y))
            assert dialog.text.cursor == 5


@SIZES
async def test_how_far_the_measuring_is_is_told_while_it_goes_on(size):
    long = [f"word{n} " for n in range(400)]
    engine = ScriptedEngine([long], prefill_tokens_per_step=3)
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("count")
            await shown.answer()
            shown.transcript.focus()
            await shown.press("t")
            await shown.until(lambda: len(engine.submitted) == 2)
            before = shown.text.split("\n")[0]
            assert "measuring the answer" in before
            await shown.step()
            await shown.until(lambda: " cached + " in shown.text.split("\n")[0])
            first = shown.text.split("\n")[0]
            await shown.step()
            await shown.until(lambda: "6 of 8 new" in shown.text.split("\n")[0])
            assert "400 cached + 3 of 8 new" in first
            await shown.press("escape")
            assert shown.dialog is None and engine.cancelled == [engine.submitted[1].id]


async def test_leaving_while_it_is_measured_ends_the_measuring():
    engine = ScriptedEngine(script)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("capital?")
            await shown.answer()
            shown.transcript.focus()
            await shown.press("t")
            await shown.until(lambda: len(engine.submitted) == 2)
            assert "measuring" in shown.text
            await shown.press("escape")
            assert shown.dialog is None
            assert engine.cancelled == [engine.submitted[1].id]
            await shown.answer()
            await look(shown)
            assert "Paris is the capital." in shown.text


async def test_help_tells_the_keys_of_the_view_first_and_leads_back_to_it():
    engine = ScriptedEngine(script)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("capital?")
            await shown.answer()
            shown.transcript.focus()
            dialog = await look(shown)
            await shown.press("f1")
            first = shown.text.index("In the token view")
            assert first < shown.text.index("Another token in its place")
            assert "Writing" not in shown.text[:first]
            await shown.press("escape")
            assert shown.dialog is dialog
            assert "5 of 10" in shown.text


@pytest.mark.parametrize("is_failing", [False, True], ids=["measured", "failed"])
async def test_what_comes_while_the_help_lies_over_the_view_is_not_lost(is_failing):
    engine = ScriptedEngine(script)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("capital?")
            await shown.answer()
            shown.transcript.focus()
            await shown.press("t")
            await shown.until(lambda: len(engine.submitted) == 2)
            dialog = shown.dialog
            assert isinstance(dialog, TokenScreen)
            await shown.press("f1")
            if is_failing:
                engine.fail(LocalPagedError("The engine broke."))
                await shown.until(lambda: shown.dialog is None)
                await shown.until_shown("The engine broke.")
            else:
                engine.run_until_idle()
                await shown.until(lambda: dialog.is_measured)
                await shown.press("escape")
                assert shown.dialog is dialog
                await shown.until_shown("5 of 10")


async def test_an_answer_that_nobody_knows_the_making_of_has_no_tokens_to_look_at():
    store = Store.open()
    question = make_message(None, "user", "q")
    answer = make_message(question.hash, "assistant", "an answer")
    chat = Chat("old", "old", answer.hash, "", "", 1.0, 1.0)
    store.submit(Write(messages=(question, answer), new_chats=(chat,))).result(TIMEOUT_S)
    store.close()
    engine = ScriptedEngine(script)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            shown.transcript.focus()
            await shown.press("t")
            assert shown.dialog is None
            await shown.until_shown("is not known any more")
            assert engine.submitted == []


async def test_where_nothing_else_surprises_the_key_says_so():
    engine = ScriptedEngine([[" Paris", " is"]])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("capital?")
            await shown.answer()
            shown.transcript.focus()
            await look(shown)
            await shown.press("n")
            await shown.until_shown("was a surprise")
