"""Going on with an answer that was cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.chat.events import TurnEnded, TurnText
from localpaged.chat.service import ChatService
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import SamplingParams
from localpaged.errors import ChatError, NotInHistory
from localpaged.store.database import connect
from localpaged.store.rows import Turn, TurnStatus
from testkit.builders import Recorder, make_service
from testkit.fake_model import END_ID, read_prompt
from testkit.scripted_engine import Answer, ScriptedEngine


def cut_answer(service: ChatService, engine: ScriptedEngine, recorder: Recorder) -> Turn:
    """An answer that its length ended: "Once upon"."""
    turn = service.send(
        service.new_chat(system="s").id, "story", sampling=SamplingParams(max_tokens=2)
    )
    engine.wait_submitted(1)
    engine.run_until_idle()
    assert recorder.wait_ended(turn.id).finish_reason is FinishReason.LENGTH
    return turn


def story_engine() -> ScriptedEngine:
    return ScriptedEngine([["Once ", "upon", " never"], [" a", " time"]])


def test_a_cut_answer_goes_on_where_it_ended(database_path: Path):
    service, engine, recorder = make_service(database_path, engine=story_engine())
    cut = cut_answer(service, engine, recorder)
    before = service.transcript(cut.chat_id)[-1]
    assert before.message is not None and before.turn is not None

    again = service.continue_turn(cut.id, sampling=SamplingParams(max_tokens=9))
    assert again.id == cut.id
    assert (again.status, again.partial_text) == (TurnStatus.QUEUED, "Once upon")
    request = engine.wait_submitted(2)
    assert read_prompt(request.prompt_ids)[-1] == ("assistant", "Once upon")
    assert request.prompt_ids[-1] != END_ID
    (_, _, running) = service.transcript(cut.chat_id)
    assert running.message is None
    assert running.turn is not None and running.turn.partial_text == "Once upon"

    engine.run_until_idle()
    end = recorder.wait_for(TurnEnded, count=2)
    assert end.status is TurnStatus.DONE
    after = service.transcript(cut.chat_id)[-1]
    assert after.message is not None and after.turn is not None
    assert after.message.text == "Once upon a time"
    assert after.message.parent_hash == before.message.parent_hash
    assert end.usage is not None
    assert after.turn.completion_tokens == 4 == end.usage.completion_tokens
    assert after.turn.decode_s is not None and before.turn.decode_s is not None
    assert after.turn.decode_s > before.turn.decode_s
    assert service._store.path_to(before.message.hash)[-1].text == "Once upon"
    assert [event.offset for event in recorder.of(TurnText)] == [0, 5, 9, 11]
    service.close()


def test_without_new_sampling_the_old_is_kept_but_for_the_seed(database_path: Path):
    service, engine, recorder = make_service(database_path, engine=story_engine())
    cut = cut_answer(service, engine, recorder)
    again = service.continue_turn(cut.id)
    request = engine.wait_submitted(2)
    assert request.sampling.max_tokens == 2
    assert again.seed == request.sampling.seed != cut.seed
    service.close()


def test_a_crash_while_continuing_keeps_the_old_text(database_path: Path):
    service, engine, recorder = make_service(database_path, engine=story_engine())
    cut = cut_answer(service, engine, recorder)
    service.continue_turn(cut.id)
    engine.wait_submitted(2)
    rows = connect(database_path, is_reader=True).execute("SELECT text, token_count FROM partials")
    assert rows.fetchall() == [("Once upon", 2)]
    service.close()


def test_an_answer_without_text_is_made_from_the_start(database_path: Path):
    service, engine, recorder = make_service(database_path, engine=ScriptedEngine([["a"], ["b"]]))
    turn = service.send(service.new_chat().id, "question")
    engine.wait_submitted(1)
    service.stop(turn.id)
    engine.step()
    recorder.wait_ended(turn.id)
    service.continue_turn(turn.id)
    request = engine.wait_submitted(2)
    assert read_prompt(request.prompt_ids) == [("user", "question"), ("assistant", "")]
    assert request.prompt_ids[-2] == END_ID
    engine.run_until_idle()
    recorder.wait(lambda: recorder.text(turn.id) == "b")
    service.close()


def test_stopping_a_continued_answer_keeps_all_its_text(database_path: Path):
    service, engine, recorder = make_service(database_path, engine=story_engine())
    cut = cut_answer(service, engine, recorder)
    service.continue_turn(cut.id)
    engine.wait_submitted(2)
    engine.step()
    engine.step()
    service.stop(cut.id)
    engine.step()
    recorder.wait_for(TurnEnded, count=2)
    line = service.transcript(cut.chat_id)[-1]
    assert line.message is not None and line.message.text == "Once upon a"
    assert line.turn is not None and line.turn.completion_tokens == 3
    service.close()


def test_what_is_complete_running_or_not_last_is_not_continued(database_path: Path):
    engine = ScriptedEngine([["full"], Answer(("cut",), reason=FinishReason.LENGTH), ["later"]])
    service, _, recorder = make_service(database_path, engine=engine)
    chat = service.new_chat()

    complete = service.send(chat.id, "one")
    with pytest.raises(ChatError, match="still running"):
        service.continue_turn(complete.id)
    engine.wait_submitted(1)
    engine.run_until_idle()
    recorder.wait_ended(complete.id)
    with pytest.raises(ChatError, match="is complete"):
        service.continue_turn(complete.id)

    cut = service.send(chat.id, "two")
    engine.wait_submitted(2)
    engine.run_until_idle()
    recorder.wait_ended(cut.id)
    later = service.send(chat.id, "three")
    with pytest.raises(ChatError, match="Only the last answer"):
        service.continue_turn(cut.id)
    engine.wait_submitted(3)
    engine.run_until_idle()
    recorder.wait_ended(later.id)
    with pytest.raises(ChatError, match="Only the last answer"):
        service.continue_turn(cut.id)
    with pytest.raises(NotInHistory):
        service.continue_turn("nope")
    service.close()


def test_a_message_stopped_while_it_waits_cannot_be_continued_yet(database_path: Path):
    service, engine, recorder = make_service(database_path)
    chat = service.new_chat()
    service.send(chat.id, "one")
    waiting = service.send(chat.id, "two")
    engine.wait_submitted(1)
    service.stop(waiting.id)
    recorder.wait_ended(waiting.id)
    with pytest.raises(ChatError, match="Only the last answer"):
        service.continue_turn(waiting.id)
    service.close()
