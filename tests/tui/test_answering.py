"""Asking and answering on the chat screen, over the real service and a scripted engine."""

from __future__ import annotations

from localpaged.engine.events import LoadEvent
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import SamplingParams
from localpaged.errors import BadModelFile, StepFailed
from localpaged.store.rows import TurnStatus
from testkit.fake_model import read_prompt
from testkit.past_chats import write_chat
from testkit.screens import open_service, stage
from testkit.scripted_engine import MIB, Answer, ScriptedEngine
from testkit.sizes import SIZES

LONG = tuple(f"word{n} " for n in range(400))


@SIZES
async def test_a_question_is_answered(size):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("Say hello")
            assert "❯ Say hello" in shown.text
            await shown.answer()
            assert "Hello, world." in shown.text
            assert "4 tok" in shown.text
            assert "0 cached + 12 new" in shown.text
            assert shown.prompt.text == ""


async def test_writing_is_possible_while_the_model_loads_and_what_is_sent_waits():
    engine = ScriptedEngine(load_stages=[LoadEvent("reading weights", 40 * MIB, 94 * MIB, "bytes")])
    with open_service(engine) as service:
        async with stage(service, engine, is_loaded=False) as shown:
            assert "You can write already" in shown.text
            await shown.ask("early")
            await shown.until_shown("waits for the model")
            engine._emit([LoadEvent("reading weights", 40 * MIB, 94 * MIB, "bytes")])
            await shown.until_shown("40.0 MiB of 94.0 MiB")
            engine.load()
            await shown.answer()
            assert "Hello, world." in shown.text
            assert "loading" not in shown.text


@SIZES
async def test_a_model_that_cannot_be_loaded_is_told_and_history_stays_readable(size):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("before")
            await shown.answer()
    broken = ScriptedEngine(load_error=BadModelFile("The file is cut.", hint="Fetch it again."))
    with open_service(broken) as service:
        async with stage(service, broken, size=size) as shown:
            await shown.until_shown("The file is cut.")
            assert "Fetch it again." in shown.text
            assert "Hello, world." in shown.text
            await shown.say("kept")
            assert shown.prompt.text == "kept"
            assert broken.submitted == []


async def test_escape_stops_and_keeps_the_text_and_f5_goes_on():
    engine = ScriptedEngine([LONG])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("tell me")
            await shown.step(5)
            await shown.press("escape")
            await shown.until(lambda: bool(engine.cancelled))
            await shown.answer()
            assert "word3" in shown.text
            assert "stopped" in shown.text
            await shown.press("f5")
            await shown.until(lambda: len(engine.submitted) == 2)
            assert "word3" in shown.text
            await shown.answer()
            assert shown.last_answer.status is TurnStatus.DONE


async def test_a_failed_answer_shows_message_and_hint_under_its_text():
    engine = ScriptedEngine([Answer(("half",), error=StepFailed("It broke.", hint="Try again."))])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.answer()
            for text in ("half", "! It broke.", "Try again."):
                assert text in shown.text


async def test_a_message_sent_while_an_answer_runs_waits_behind_it():
    engine = ScriptedEngine(lambda request: ("one ", "two "))
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("first")
            await shown.say("second")
            assert "❯ second" in shown.text
            assert "queued" in shown.text
            engine.run_until_idle()
            await shown.until(lambda: len(engine.submitted) == 2)
            await shown.answer()
            assert "queued" not in shown.text


async def test_reading_a_long_prompt_shows_its_progress():
    engine = ScriptedEngine(prefill_tokens_per_step=50)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x" * 197)
            await shown.step(2)
            assert "0 cached + 100 of 200 new" in shown.text


async def test_an_answer_interrupted_by_a_crash_is_marked_and_continued():
    write_chat([("tell", "word0 word1")], last_status=TurnStatus.INTERRUPTED)
    engine = ScriptedEngine([(" and", " on")])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            assert "interrupted" in shown.text
            await shown.press("f5")
            await shown.until(lambda: bool(engine.submitted))
            await shown.answer()
            assert "word0 word1 and on" in shown.text
            assert "interrupted" not in shown.text


async def test_an_answer_cut_by_its_length_says_so():
    engine = ScriptedEngine([Answer(("a", "b"), reason=FinishReason.LENGTH)])
    with open_service(engine, sampling=SamplingParams(max_tokens=2)) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.answer()
            assert "cut at its length limit" in shown.text


async def test_what_the_model_is_asked_is_what_was_written_to_the_letter():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("[b]a[/b]\n  two  spaces")
            assert "[b]a[/b]\n  two  spaces" in read_prompt(engine.submitted[0].prompt_ids)[-2][1]
