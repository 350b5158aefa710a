"""Answers keep the ids they were made of, and the next prompt is written with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from localpaged.chat.events import TurnEnded
from localpaged.engine.params import Request, SamplingParams
from localpaged.prompt import PromptMessage
from localpaged.store.rows import Turn, TurnStatus
from localpaged.store.store import Store
from localpaged.store.token_ids import pack, unpack
from localpaged.store.writes import Write
from testkit.builders import Recorder, make_chat, make_service, make_turn, ready_model
from testkit.fake_model import END_ID, FakeChatModel, piece_id, read_prompt
from testkit.scripted_engine import Answer, ScriptedEngine

PIECES = ("Par", "is", ".")
IDS = tuple(map(piece_id, PIECES))


def run_all(engine: ScriptedEngine, recorder: Recorder, *, count: int) -> Request:
    """Run until `count` turns have ended; return the last request."""
    request = engine.wait_submitted(count)
    engine.run_until_idle()
    recorder.wait_for(TurnEnded, count=count)
    return request


def test_the_next_prompt_begins_with_all_that_was_read_and_written(database_path: Path):
    engine = ScriptedEngine([PIECES])
    service, _, recorder = make_service(database_path, engine=engine)
    chat = service.new_chat(system="Be brief.")
    sequences = []
    for number in range(1, 4):
        service.send(chat.id, f"question {number}")
        request = run_all(engine, recorder, count=number)
        sequences.append((*request.prompt_ids, *IDS, END_ID))

    for before, after in pairwise(sequences):
        assert after[: len(before)] == before
    assert read_prompt(sequences[1])[2] == ("assistant", "Paris.")
    service.close()


def test_ids_are_saved_with_the_answer_and_survive_a_restart(database_path: Path):
    service, engine, recorder = make_service(database_path, engine=ScriptedEngine([PIECES]))
    chat = service.new_chat()
    service.send(chat.id, "capital?")
    first = run_all(engine, recorder, count=1)
    service.close()

    service, engine, recorder = make_service(database_path, engine=ScriptedEngine([PIECES]))
    turn = service.transcript(chat.id)[-1].turn
    assert turn is not None and turn.token_ids is not None
    assert unpack(turn.token_ids) == IDS
    assert turn.model_fingerprint == "fake"
    service.send(chat.id, "and Italy?")
    second = run_all(engine, recorder, count=1)
    sequence = (*first.prompt_ids, *IDS, END_ID)
    assert second.prompt_ids[: len(sequence)] == sequence
    service.close()


def test_ids_of_another_model_are_not_used(database_path: Path):
    service, engine, recorder = make_service(database_path, engine=ScriptedEngine([PIECES]))
    chat = service.new_chat()
    service.send(chat.id, "capital?")
    run_all(engine, recorder, count=1)
    service.close()

    for other in (FakeChatModel(name="other"), FakeChatModel(fingerprint="newer file")):
        service, engine, recorder = make_service(
            database_path, engine=ScriptedEngine([("ok",)]), model=ready_model(other)
        )
        service.send(chat.id, "next")
        request = run_all(engine, recorder, count=1)
        assert not set(IDS[:2]) & set(request.prompt_ids)
        assert ("assistant", "Paris.") in read_prompt(request.prompt_ids)
        service.close()


def test_a_stopped_answer_keeps_the_ids_it_got(database_path: Path):
    service, engine, recorder = make_service(database_path, engine=ScriptedEngine([PIECES]))
    chat = service.new_chat()
    turn = service.send(chat.id, "capital?")
    engine.wait_submitted(1)
    engine.step()
    engine.step()
    service.stop(turn.id)
    engine.step()
    recorder.wait_ended(turn.id)

    saved = service.transcript(chat.id)[-1].turn
    assert saved is not None and saved.token_ids is not None
    assert unpack(saved.token_ids) == IDS[:1]
    service.close()


def test_a_continued_answer_goes_on_behind_its_ids_and_keeps_all_of_them(database_path: Path):
    engine = ScriptedEngine([("Once ", "upon"), (" a", " time"), ("ok",)])
    service, _, recorder = make_service(database_path, engine=engine)
    chat = service.new_chat()
    cut = service.send(chat.id, "story", sampling=SamplingParams(max_tokens=2))
    first = run_all(engine, recorder, count=1)

    service.continue_turn(cut.id, sampling=SamplingParams(max_tokens=9))
    again = run_all(engine, recorder, count=2)
    begun = (piece_id("Once "), piece_id("upon"))
    assert again.prompt_ids == (*first.prompt_ids, *begun)
    whole = (*begun, piece_id(" a"), piece_id(" time"))
    saved = service.transcript(chat.id)[-1].turn
    assert saved is not None and saved.token_ids == pack(whole)

    service.send(chat.id, "thanks")
    third = run_all(engine, recorder, count=3)
    sequence = (*first.prompt_ids, *whole, END_ID)
    assert third.prompt_ids[: len(sequence)] == sequence
    service.close()


def test_an_answer_continued_by_another_model_gets_its_ids(database_path: Path):
    service, engine, recorder = make_service(database_path, engine=ScriptedEngine([("Once ",)]))
    chat = service.new_chat()
    cut = service.send(chat.id, "story", sampling=SamplingParams(max_tokens=1))
    run_all(engine, recorder, count=1)
    service.close()

    other = ready_model(FakeChatModel(name="other"))
    engine = ScriptedEngine([("upon",), ("ok",)])
    service, _, recorder = make_service(database_path, engine=engine, model=other)
    service.continue_turn(cut.id, sampling=SamplingParams(max_tokens=9))
    run_all(engine, recorder, count=1)
    saved = service.transcript(chat.id)[-1].turn
    assert saved is not None and saved.token_ids is not None
    assert unpack(saved.token_ids) == (*map(ord, "Once "), piece_id("upon"))
    assert (saved.model, saved.model_fingerprint) == ("other", "fake")
    service.close()


def test_an_answer_whose_beginning_cannot_be_told_from_the_question_has_no_ids(
    database_path: Path,
):
    class Rewriting(FakeChatModel):
        """Writes an open answer's prompt unlike a question's, as templates with thoughts do."""

        def render(
            self, messages: Sequence[PromptMessage], *, continue_last: bool = False
        ) -> tuple[int, ...]:
            ids = super().render(messages, continue_last=continue_last)
            return (*map(ord, "open"), *ids) if continue_last else ids

    # ids that do not spell the text stand for nothing
    engine = ScriptedEngine([Answer(("Once ",), ((7,),)), ("upon",), ("ok",)])
    service, _, recorder = make_service(
        database_path, engine=engine, model=ready_model(Rewriting())
    )
    chat = service.new_chat()
    cut = service.send(chat.id, "story", sampling=SamplingParams(max_tokens=1))
    run_all(engine, recorder, count=1)
    service.continue_turn(cut.id, sampling=SamplingParams(max_tokens=9))
    run_all(engine, recorder, count=2)

    saved = service.transcript(chat.id)[-1].turn
    assert saved is not None and saved.token_ids is None
    service.send(chat.id, "thanks")
    request = run_all(engine, recorder, count=3)
    assert ("assistant", "Once upon") in read_prompt(request.prompt_ids)
    service.close()


def test_an_answer_made_from_the_start_again_has_only_its_new_ids(database_path: Path):
    silent = Answer(("", ""), token_ids=((11,), (12,)))
    engine = ScriptedEngine([silent, PIECES])
    service, _, recorder = make_service(database_path, engine=engine)
    chat = service.new_chat()
    cut = service.send(chat.id, "q", sampling=SamplingParams(max_tokens=1))
    first = run_all(engine, recorder, count=1)

    service.continue_turn(cut.id, sampling=SamplingParams(max_tokens=9))
    again = run_all(engine, recorder, count=2)

    assert again.prompt_ids == first.prompt_ids
    saved = service.transcript(chat.id)[-1].turn
    assert saved is not None and saved.token_ids == pack(IDS)
    service.close()


def test_tokens_without_text_are_kept_too(database_path: Path):
    held_back = Answer(("", "né"), token_ids=((11, 12), (13,)))
    service, engine, recorder = make_service(database_path, engine=ScriptedEngine([held_back]))
    chat = service.new_chat()
    service.send(chat.id, "q")
    run_all(engine, recorder, count=1)

    saved = service.transcript(chat.id)[-1].turn
    assert saved is not None and saved.token_ids == pack((11, 12, 13))
    service.close()


def test_a_checkpoint_has_the_ids_of_its_text(database_path: Path):
    service, engine, _ = make_service(database_path, engine=ScriptedEngine([PIECES]))
    chat = service.new_chat()
    turn = service.send(chat.id, "capital?")
    engine.wait_submitted(1)
    engine.step()
    engine.step()
    engine.step()
    assert service._store.writer.flush()

    saved = service._store.turn(turn.id)
    assert saved.status is TurnStatus.STREAMING
    assert (saved.partial_text, saved.token_ids) == ("Paris", pack(IDS[:2]))
    service.close()


def test_an_interrupted_answer_keeps_the_ids_of_its_checkpoint(database_path: Path):
    service, engine, _ = make_service(database_path, engine=ScriptedEngine([PIECES]))
    chat = service.new_chat()
    service.send(chat.id, "capital?")
    first = engine.wait_submitted(1)
    for _ in range(3):
        engine.step()
    # the process dies here: its lock is free, nothing of it was tidied up
    store = service._store
    assert store.writer.flush()
    store.writer.close()
    store._lock.release()

    service, engine, recorder = make_service(database_path, engine=ScriptedEngine([("ok",)]))
    saved = service.transcript(chat.id)[-1].turn
    assert saved is not None and saved.status is TurnStatus.INTERRUPTED
    assert saved.token_ids == pack(IDS[:2])
    service.continue_turn(saved.id)
    again = run_all(engine, recorder, count=1)
    assert again.prompt_ids == (*first.prompt_ids, *IDS[:2])
    service.close()


def test_packed_ids_are_four_bytes_each():
    ids = (0, 1, 49_151, 2**32 - 1)

    assert len(pack(ids)) == 16
    assert unpack(pack(ids)) == ids
    assert unpack(pack(ids) + b"\x01") == ids
    assert pack(()) == b"" and unpack(b"") == ()


def test_a_message_that_two_turns_made_has_the_ids_of_its_own_chat(database_path: Path):
    store = Store.open(database_path)
    make_chat(store, texts=["q", "yes"])
    tip = store.chat("chat").tip_hash
    fork = store.fork("chat", at_hash=tip or "")
    made = make_turn(parent_hash=None, tip_hash=tip, status=TurnStatus.DONE)
    store.submit(
        Write(
            turns=[
                _with_ids(made, "own", fork.id, (piece_id("ye"), ord("s"))),
                _with_ids(made, "theirs", "chat", (ord("y"), piece_id("es"))),
            ]
        )
    ).result(10)
    assert store.close() is None

    service, engine, recorder = make_service(database_path, engine=ScriptedEngine([("ok",)]))
    service.send(fork.id, "next")
    request = run_all(engine, recorder, count=1)
    assert piece_id("ye") in request.prompt_ids
    assert piece_id("es") not in request.prompt_ids
    service.close()


def _with_ids(turn: Turn, turn_id: str, chat_id: str, ids: tuple[int, ...]) -> Turn:
    return replace(turn, id=turn_id, chat_id=chat_id, token_ids=pack(ids), model_fingerprint="fake")
