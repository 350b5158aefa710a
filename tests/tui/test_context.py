"""A full context: warned of, never cut in silence; every way on does what it says."""

from __future__ import annotations

from concurrent.futures import Future

from localpaged.chat.context_room import SUMMARY_REQUEST
from localpaged.engine.events import ReadyEvent
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import SamplingParams
from localpaged.tui.screens.context import ContextScreen
from localpaged.tui.screens.picker import PickerScreen
from testkit.fake_model import read_prompt
from testkit.past_chats import write_chat
from testkit.screens import LARGE, TIMEOUT_S, Stage, open_service, stage
from testkit.scripted_engine import Answer, ScriptedEngine
from testkit.sizes import SIZES

NOT_SHOWN = "earlier messages are not shown to the model"


def small_engine(*script, limit: int = 600) -> ScriptedEngine:
    ready = ReadyEvent("fake-model", "cpu", "float32", limit, 0.1)
    return ScriptedEngine(script or [tuple("a" * 50)], ready=ready)


def write_past(exchanges: int = 3) -> None:
    """A chat whose answers were as long as those of the engine."""
    write_chat([(f"{number}" * 70, "a" * 50) for number in range(exchanges)])


async def fill(shown: Stage, *, last: str = "q" * 240) -> None:
    """Ask what finds no room, and wait for the choice."""
    await shown.ask(last)
    await shown.answer()
    await shown.until(lambda: isinstance(shown.dialog, ContextScreen))
    await shown.settle()


def sent(engine: ScriptedEngine) -> list[str]:
    return [text for _, text in read_prompt(engine.submitted[-1].prompt_ids)]


@SIZES
async def test_a_question_without_room_offers_the_ways_on_and_stopping_changes_nothing(size):
    write_past()
    engine = small_engine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await fill(shown)
            assert "The question does not fit: 615 of 600 tokens" in shown.text
            for text in ("Stop here", "Go on without the oldest messages", "tokens to be read"):
                assert text in shown.text
            assert "4 messages not shown to the model any more" in shown.text
            before = service.transcript(shown.app.workspace.current.id)
            await shown.press("enter")
            assert shown.dialog is None
            assert "/context shows" in shown.text
            assert "context 615 of 600  15 too many" in shown.text
            assert service.transcript(shown.app.workspace.current.id) == before
            await shown.say("/context")
            await shown.until(lambda: isinstance(shown.dialog, ContextScreen))
            await shown.settle()
            await shown.press("escape")
            assert shown.dialog is None


async def test_sliding_asks_again_and_shows_where_the_view_begins():
    write_past()
    engine = small_engine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await fill(shown)
            await shown.press("down", "enter")
            await shown.until(lambda: len(engine.submitted) == 2)
            await shown.answer()
            assert sent(engine)[:-1] == ["2" * 70, "a" * 50, "q" * 240]
            shown.transcript.put(0)
            await shown.settle()
            rows = shown.text.split("\n")
            line = next(n for n, row in enumerate(rows) if f"── {NOT_SHOWN} ──" in row)
            assert "2222" in rows[line + 2]
            shown.transcript.focus()
            await shown.say("/show-all")
            assert NOT_SHOWN not in shown.text
            await shown.say("/show-all")
            await shown.until_shown("The model is shown the whole chat.")


async def test_the_line_is_there_again_when_the_chat_is_opened_again():
    write_past()
    engine = small_engine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await fill(shown)
            await shown.press("down", "enter")
            await shown.until(lambda: len(engine.submitted) == 2)
            await shown.answer()
        async with stage(service, engine) as shown:
            await shown.press("pageup")
            assert NOT_SHOWN in shown.text


async def test_a_summary_is_written_in_a_fork_and_the_question_follows_it():
    write_past(5)
    engine = small_engine(limit=1_000)
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await fill(shown, last="q" * 380)
            original = shown.app.workspace.current
            await shown.press("down", "down", "enter")
            await shown.until(lambda: len(engine.submitted) == 2)
            assert sent(engine)[-2] == SUMMARY_REQUEST
            assert shown.app.workspace.current is not original
            engine.run_until_idle()
            await shown.until(lambda: len(engine.submitted) == 3)
            await shown.answer()
            assert sent(engine)[:2] == [SUMMARY_REQUEST, "a" * 50]
            assert sent(engine)[-2] == "q" * 380
            assert NOT_SHOWN in "\n".join(
                "".join(run.text for run in line.prefix)
                for line in map(shown.transcript.document.line, range(60))
            )


async def test_a_summary_that_is_stopped_loses_no_question():
    write_past(5)
    engine = small_engine(limit=1_000)
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await fill(shown, last="q" * 380)
            await shown.press("down", "down", "enter")
            await shown.until(lambda: len(engine.submitted) == 2)
            await shown.step(2)
            await shown.press("escape")
            await shown.answer()
            await shown.until_shown("There is no summary")
            assert len(engine.submitted) == 2


async def test_an_earlier_answer_is_gone_back_to_in_a_fork():
    engine = small_engine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            for number in range(3):
                await shown.ask(f"{number}" * 70)
                await shown.answer()
            await fill(shown)
            original = shown.app.workspace.current
            await shown.press("up", "enter")
            assert isinstance(shown.dialog, PickerScreen)
            assert "371 tok" in shown.text
            await shown.press("down", "enter")
            await shown.until(lambda: len(engine.submitted) == 5)
            assert sent(engine)[:-1] == ["0" * 70, "a" * 50, "1" * 70, "a" * 50, "q" * 240]
            assert shown.app.workspace.current is not original
            await shown.answer()
            assert shown.last_answer.status.value == "done"


async def test_an_answer_cut_by_the_context_says_so_and_goes_on_after_a_slide():
    whole = tuple("a" * 50)
    cut = Answer(tuple("b" * 33), reason=FinishReason.LENGTH)
    engine = small_engine(whole, whole, cut, (" the rest",), limit=354)
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            for number in range(2):
                await shown.ask(f"{number}" * 70)
                await shown.answer()
            await shown.ask("q" * 70)
            await shown.answer()
            await shown.until(lambda: isinstance(shown.dialog, ContextScreen))
            await shown.settle()
            assert "The answer is cut, the context is full" in shown.text
            await shown.press("down", "enter")
            await shown.until(lambda: len(engine.submitted) == 4)
            assert sent(engine)[-1] == "b" * 33
            await shown.answer()
            assert "bbb the rest" in shown.text


async def test_a_length_limit_of_the_users_own_is_no_full_context():
    engine = small_engine(Answer(("a", "b"), reason=FinishReason.LENGTH))
    with open_service(engine, sampling=SamplingParams(max_tokens=2)) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.answer()
            assert "cut at its length limit" in shown.text
            assert shown.dialog is None


async def test_an_answer_cut_in_less_context_than_there_is_now_says_so_and_continues():
    engine = small_engine(Answer(("a", "b"), reason=FinishReason.LENGTH))
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.answer()
            assert "cut: its context was full" in shown.text
            assert "F5 continues" in shown.text
            assert shown.dialog is None


async def test_a_chat_that_fits_has_nothing_to_choose_and_is_told_so():
    engine = small_engine(("yes",))
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.answer()
            await shown.say("/context")
            await shown.until_shown("The whole chat fits: ")
            assert " of 600 tokens." in shown.text
            assert shown.dialog is None


@SIZES
async def test_a_line_warns_before_the_context_is_full(size):
    engine = small_engine(tuple("a" * 50), limit=210)
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("x" * 80)
            await shown.answer()
            assert "context left" not in shown.text
            await shown.ask("y" * 12)
            await shown.answer()
            assert "11 tokens of context left" in shown.text
            assert "/context shows the ways on" in shown.text


async def test_a_chat_in_the_background_waits_with_its_choice():
    engine = small_engine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x" * 700)
            await shown.press("ctrl+n")
            await shown.answer()
            assert shown.dialog is None
            await shown.press("alt+2")
            assert "/context shows" in shown.text
            await shown.say("/context")
            await shown.until(lambda: isinstance(shown.dialog, ContextScreen))
            await shown.settle()
            assert "Stop here" in shown.text
            assert "oldest" not in shown.text
            assert "No summary: there is no earlier answer to sum up." in shown.text


async def test_who_types_when_the_choice_comes_by_itself_goes_on_typing():
    write_past()
    engine = small_engine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await fill(shown)
            await shown.burst(*"what I write", "enter")
            assert shown.dialog is None
            await shown.until(lambda: len(engine.submitted) == 2)
            assert "what I write" in sent(engine)
            await shown.answer()


async def test_the_choice_does_not_come_over_what_was_begun_while_it_was_counted(monkeypatch):
    write_past()
    engine = small_engine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            count, counted = service.context.room, Future()
            monkeypatch.setattr(service.context, "room", lambda _: counted)
            await shown.ask("q" * 240)
            await shown.answer()
            await shown.write("a")
            counted.set_result(count(shown.app.workspace.current.id).result(TIMEOUT_S))
            await shown.beat()
            assert shown.dialog is None
            assert shown.prompt.text == "a"


async def test_letters_choose_nothing_where_nobody_writes():
    write_past()
    engine = small_engine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            shown.transcript.focus()
            shown.app.chat.commands.context.show()
            await shown.until(lambda: isinstance(shown.dialog, ContextScreen))
            await shown.press("j", "a", "space")
            assert isinstance(shown.dialog, ContextScreen)
            await shown.press("escape")
            assert shown.prompt.text == ""


async def test_without_a_way_on_nothing_asks_by_itself():
    engine = small_engine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            counted = service.context.room
            rooms = []
            service.context.room = lambda chat_id: rooms.append(counted(chat_id)) or rooms[-1]
            await shown.ask("q" * 700)
            await shown.answer()
            await shown.until(lambda: bool(rooms) and rooms[0].done())
            await shown.beat()
            assert shown.dialog is None
            assert "/context shows" in shown.text
            await shown.say("/context")
            await shown.until(lambda: isinstance(shown.dialog, ContextScreen))
