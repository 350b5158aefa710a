"""One prompt, several answers: made together, durable, hidden until kept, voted on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from localpaged.chat.compare import MAX_BRANCHES, BranchSpec, make_specs
from localpaged.chat.service import ChatService
from localpaged.errors import BadParameter, ChatError, ModelNotFound
from localpaged.store.database import open_database, transaction
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from localpaged.store.sweep import purge
from testkit.builders import Recorder, make_service
from testkit.fake_model import read_prompt
from testkit.fake_shelf import FakeShelf
from testkit.scripted_engine import ScriptedEngine

PROMPT = "Which [is] best?\x1b[31m\u202e"
Play = tuple[ChatService, ScriptedEngine, Recorder]


@pytest.fixture
def play(database_path: Path) -> Play:
    engine = ScriptedEngine(lambda request: [f"{request.model or 'default'} ", "says ", "so"])
    shelf = FakeShelf("fake-model", "other")
    return make_service(database_path, engine=engine, shelf=shelf)


def finish(play: Play, count: int) -> None:
    service, engine, recorder = play
    engine.wait_submitted(count)
    engine.run_until_idle()
    for compare in service.compares.past():
        for branch in service.compares.open(compare.id).branches:
            turn = branch.exchanges[-1].turn
            assert turn is not None
            recorder.wait_ended(turn.id)


def test_specs_go_round_in_temperatures_and_count_seeds_up():
    specs = make_specs(models=["a", "b", "a"], num_samples=3, temperatures=[0.2, 1.0], seed=7)
    assert [spec.model for spec in specs] == ["a"] * 3 + ["b"] * 3
    assert [dict(spec.overrides) for spec in specs[:3]] == [
        {"temperature": 0.2, "seed": 7},
        {"temperature": 1.0, "seed": 8},
        {"temperature": 0.2, "seed": 9},
    ]
    assert len(make_specs()) == 2
    assert len(make_specs(models=["a", "b"])) == 2
    assert len(make_specs(temperatures=[0.1, 0.2, 0.3])) == 3


def test_specs_that_cannot_be_are_refused_with_the_limit():
    with pytest.raises(BadParameter, match=f"1 to {MAX_BRANCHES} answers, not 18"):
        make_specs(models=["a", "b"], num_samples=9)
    with pytest.raises(BadParameter, match="1 to 16"):
        make_specs(num_samples=0)
    with pytest.raises(BadParameter, match="temperature"):
        make_specs(temperatures=[-1.0])


def test_every_branch_answers_the_same_prompt_in_a_hidden_chat_of_its_own(play: Play):
    service, engine, _ = play
    specs = make_specs(num_samples=2, temperatures=[0.2, 1.0], models=["", "other"])
    begun = service.compares.start(PROMPT, specs, system="Be brief.")
    finish(play, 4)

    comparison = service.compares.open(begun.compare.id)
    assert [branch.exchanges[-1].message.text for branch in comparison.branches] == [  # type: ignore[union-attr]
        "default says so",
        "default says so",
        "other says so",
        "other says so",
    ]
    prompts = {tuple(read_prompt(request.prompt_ids)) for request in engine.submitted}
    assert len(prompts) == 1
    assert next(iter(prompts))[0] == ("system", "Be brief.")
    assert [request.sampling.temperature for request in engine.submitted] == [0.2, 1.0, 0.2, 1.0]
    assert len({request.sampling.seed for request in engine.submitted}) == 4
    assert service.chats() == []
    service.close()


def test_a_compare_from_a_chat_continues_it_and_leaves_it_as_it_was(play: Play):
    service, engine, recorder = play
    chat = service.configure(service.new_chat().id, options={"top_p": 0.5, "seed": 3})
    first = service.send(chat.id, "first question")
    engine.wait_submitted(1)
    engine.run_until_idle()
    recorder.wait_ended(first.id)

    begun = service.compares.start("and then?", make_specs(), from_chat=chat.id)
    finish(play, 3)

    assert [role for role, _ in read_prompt(engine.submitted[-1].prompt_ids)] == [
        "user",
        "assistant",
        "user",
        "assistant",
    ]
    # what belongs to the chat holds for its branches, but for the seed
    assert {request.sampling.top_p for request in engine.submitted} == {0.5}
    assert len({request.sampling.seed for request in engine.submitted}) == 3
    assert len(service.transcript(chat.id)) == 2
    comparison = service.compares.open(begun.compare.id)
    assert [len(branch.exchanges) for branch in comparison.branches] == [2, 2]
    assert [branch.chat.forked_from for branch in comparison.branches] == [chat.id, chat.id]
    assert [listed.id for listed in service.chats()] == [chat.id]
    service.close()


def test_kept_branches_are_chats_that_go_on_and_can_be_taken_back(play: Play):
    service, engine, recorder = play
    begun = service.compares.start(PROMPT, make_specs(models=["", "other"]))
    finish(play, 2)
    second = begun.branches[1].chat
    service.compares.keep(second.id)
    assert [(chat.id, chat.title[-7:]) for chat in service.chats()] == [(second.id, "· other")]
    assert service.compares.open(begun.compare.id).branches[1].is_kept

    turn = service.send(second.id, "go on")
    engine.wait_submitted(3)
    engine.run_until_idle()
    recorder.wait_ended(turn.id)
    assert recorder.text(turn.id) == "other says so"
    assert len(service.compares.open(begun.compare.id).branches[1].exchanges) == 4
    service.compares.keep(second.id, is_kept=False)
    assert service.chats() == []
    service.close()


def test_one_more_sample_is_made_as_the_one_it_follows(play: Play):
    service, engine, _ = play
    begun = service.compares.start(PROMPT, make_specs(models=["", "other"], temperatures=[0.3]))
    more = service.compares.add(begun.compare.id, like=begun.branches[1].chat.id)
    finish(play, 3)
    assert len(more.branches) == 3
    assert engine.submitted[2].model == "other"
    assert engine.submitted[2].sampling.temperature == 0.3
    assert engine.submitted[2].prompt_ids == engine.submitted[1].prompt_ids
    assert len({request.sampling.seed for request in engine.submitted}) == 3
    service.close()


def test_a_vote_is_kept_with_who_answered_and_ends_the_blindness(play: Play):
    service, _, _ = play
    begun = service.compares.start(PROMPT, make_specs(models=["", "other"]), is_blind=True)
    finish(play, 2)
    assert service.compares.open(begun.compare.id).compare.is_blind
    (other,) = [branch.chat for branch in begun.branches if branch.chat.model]
    voted = service.compares.vote(begun.compare.id, other.id)
    assert (voted.is_blind, voted.voted_model) == (False, "other")
    with pytest.raises(ChatError, match="does not belong"):
        service.compares.vote(begun.compare.id, service.new_chat().id)
    path = service._store.path
    service.close()
    store = Store.open(path)
    assert store.compare(begun.compare.id) == voted
    store.close()


def test_answers_of_a_program_that_died_are_found_and_continued(play: Play, database_path: Path):
    service, engine, recorder = play
    begun = service.compares.start(PROMPT, make_specs())
    engine.wait_submitted(2)
    for _ in range(3):
        engine.step()
    service._store.writer.flush()
    # as after kill -9: nobody closes anything, and the lock of the run is gone
    service._store._lock.release()

    service, engine, recorder = make_service(database_path, engine=ScriptedEngine([["so on"]]))
    (compare,) = service.compares.past()
    assert compare == begun.compare
    branches = service.compares.open(compare.id).branches
    turns = [branch.exchanges[-1].turn for branch in branches]
    assert [turn.status for turn in turns if turn] == [TurnStatus.INTERRUPTED] * 2
    texts = [branch.exchanges[-1].message.text for branch in branches]  # type: ignore[union-attr]
    assert texts == ["default says "] * 2
    assert turns[0] is not None
    continued = service.continue_turn(turns[0].id)
    engine.wait_submitted(1)
    engine.run_until_idle()
    recorder.wait_ended(continued.id)
    assert service.transcript(branches[0].chat.id)[-1].message.text == "default says so on"  # type: ignore[union-attr]
    service.close()


def test_a_deleted_compare_takes_along_what_was_not_kept(play: Play, database_path: Path):
    service, engine, recorder = play
    begun = service.compares.start(PROMPT, make_specs(num_samples=3))
    engine.wait_submitted(3)
    engine.step()
    chats = [branch.chat.id for branch in begun.branches]
    service.compares.keep(chats[1])
    service.compares.delete(begun.compare.id)
    engine.run_until_idle()
    turns = [branch.exchanges[-1].turn for branch in begun.branches]
    statuses = [recorder.wait_ended(turn.id).status for turn in turns if turn is not None]
    assert statuses == [TurnStatus.STOPPED, TurnStatus.DONE, TurnStatus.STOPPED]
    assert service.compares.past() == []
    assert [chat.id for chat in service.chats()] == [chats[1]]
    service.close()
    # when its time has come, nothing of it is left on the disk but what was kept
    db, _ = open_database(database_path)
    with transaction(db):
        purge(db, deleted_before=time.time() + 1)
    assert db.table("compares").count == 0
    assert [row["id"] for row in db.query("SELECT id FROM chats")] == [chats[1]]
    db.close()


def test_what_cannot_be_compared_is_refused_and_nothing_is_saved(play: Play):
    service, engine, _ = play
    chat = service.new_chat()
    with pytest.raises(ChatError, match="nothing to compare"):
        service.compares.start("  ", make_specs())
    with pytest.raises(ModelNotFound, match="none"):
        service.compares.start(PROMPT, [BranchSpec(), BranchSpec("none")])
    service.send(chat.id, "question")
    engine.wait_submitted(1)
    with pytest.raises(ChatError, match="still running"):
        service.compares.start(PROMPT, make_specs(), from_chat=chat.id)
    assert service.compares.past() == []
    assert [listed.id for listed in service.chats()] == [chat.id]
    service.close()
