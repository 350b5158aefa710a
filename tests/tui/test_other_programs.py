"""What other programs write into the history shows in a chat that is running."""

from __future__ import annotations

from localpaged.chat.service import ChatService
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from localpaged.tui import app as app_module
from localpaged.tui.session import Answer
from testkit.builders import ready_model
from testkit.going_back import finish, lines, numbered
from testkit.past_chats import write_chat
from testkit.screens import LARGE, Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES


async def test_a_chat_that_another_program_makes_appears_in_the_list(monkeypatch):
    monkeypatch.setattr(app_module, "HISTORY_POLL_S", 0.0)
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("mine")
            await shown.answer()
            await shown.write("a draft")
            write_chat([("asked elsewhere", "yes")], title="From a script")
            await shown.until_shown("From a script")
            assert shown.app.workspace.current.title == "mine"
            assert shown.prompt.text == "a draft"


async def test_the_list_is_read_again_only_when_the_history_has_changed():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            shown.app.workspace.follow_history()
            assert not shown.app.workspace.follow_history()
            write_chat([("asked elsewhere", "yes")], title="From a script")
            assert shown.app.workspace.follow_history()
            assert not shown.app.workspace.follow_history()


async def test_a_message_is_sent_below_what_another_program_has_just_written():
    chat_id = write_chat([("q", "a")], title="shared")
    ours, theirs = ScriptedEngine([("ours",)]), ScriptedEngine([("from", " elsewhere")])
    with open_service(ours) as service, open_service(theirs) as other:
        theirs.load()
        async with stage(service, ours) as shown:
            other.send(chat_id, "theirs")
            theirs.wait_submitted(1)
            theirs.run_until_idle()
            await shown.until(lambda: not other.is_answering(chat_id))
            other.history.store.writer.flush()
            await shown.ask("mine")
            await shown.answer()
            texts = [entry.text for entry in shown.app.workspace.current.entries]
            assert texts == ["q", "a", "theirs", "from elsewhere", "mine", "ours"]
            assert "from elsewhere" in shown.text


async def test_an_answer_that_another_program_ended_meanwhile_is_not_shown_as_running():
    chat_id = write_chat([("q", "a")], title="shared")
    ours, theirs = ScriptedEngine([("ours",)]), ScriptedEngine([("from", " elsewhere")])
    with open_service(ours) as service, open_service(theirs) as other:
        theirs.load()
        async with stage(service, ours) as shown:
            other.send(chat_id, "theirs")
            theirs.wait_submitted(1)
            theirs.step()
            theirs.step()
            other.history.store.writer.flush()
            shown.app._next_poll_s = 0.0
            await shown.beat()
            assert shown.last_answer.is_open
            theirs.run_until_idle()
            await shown.until(lambda: not other.is_answering(chat_id))
            other.history.store.writer.flush()
            await shown.ask("mine")
            await shown.answer()
            entries = shown.app.workspace.current.entries
            assert [entry.text for entry in entries[2:]] == [
                "theirs",
                "from elsewhere",
                "mine",
                "ours",
            ]
            assert not any(isinstance(entry, Answer) and entry.is_open for entry in entries)


async def test_what_was_written_in_a_chat_that_was_not_looked_at_is_there_when_it_is():
    write_chat([("other", "chat")], title="second")
    chat_id = write_chat([("q", "a")], title="shared")
    engine = ScriptedEngine([("from", " elsewhere")])
    theirs = ScriptedEngine([("from", " elsewhere")])
    with open_service(engine) as service, open_service(theirs) as other:
        theirs.load()
        async with stage(service, engine) as shown:
            assert shown.app.workspace.current.title == "shared"
            await shown.press("alt+right")
            assert shown.app.workspace.current.title == "second"
            other.send(chat_id, "theirs")
            theirs.wait_submitted(1)
            theirs.run_until_idle()
            await shown.until(lambda: not other.is_answering(chat_id))
            other.history.store.writer.flush()
            shown.app._next_poll_s = 0.0
            await shown.beat()
            await shown.press("alt+left")
            assert shown.app.workspace.current.title == "shared"
            assert "from elsewhere" in shown.text
            assert not shown.app.workspace.running


async def test_what_another_program_writes_in_the_open_chat_is_shown():
    chat_id = write_chat([("q", "a")], title="shared")
    ours = numbered()
    theirs = ScriptedEngine([("from", " elsewhere")])
    with open_service(ours) as service, open_service(theirs) as other:
        theirs.load()
        async with stage(service, ours) as shown:
            turn = other.send(shown.app.workspace.current.id, "theirs")
            theirs.wait_submitted(1)
            theirs.step()
            theirs.step()
            other._store.writer.flush()
            follow(shown)
            assert lines(shown)[2] == "theirs"
            theirs.run_until_idle()
            await shown.until(lambda: not other.is_answering(turn.chat_id))
            other._store.writer.flush()
            follow(shown)
            assert lines(shown) == ["q", "a", "theirs", "from elsewhere"]
            assert not shown.app.workspace.running
            await shown.ask("ours")
            await shown.answer()
            assert lines(shown)[-1] == "answer 1 done really"
    assert chat_id


async def test_an_answer_whose_program_dies_is_interrupted_and_can_be_continued():
    write_chat([("q", "a")], title="shared")
    ours, theirs = numbered(), ScriptedEngine([tuple("abc")])
    with open_service(ours) as service:
        theirs.load()
        other = ChatService(store=Store.open(), engine=theirs, model=ready_model())
        async with stage(service, ours) as shown:
            other.send(shown.app.workspace.current.id, "theirs")
            theirs.wait_submitted(1)
            theirs.step()
            theirs.step()
            other._store.writer.flush()
            follow(shown)
            assert shown.last_answer.is_open
            # as if it was killed: its lock is gone, its turn is not
            other._store._lock.release()
            follow(shown)
            service._store.writer.flush()
            follow(shown)
            assert lines(shown) == ["q", "a", "theirs", "a"]
            assert shown.last_answer.status is TurnStatus.INTERRUPTED
            await shown.press("f5")
            await finish(shown)
            assert lines(shown)[-1] == "aanswer 1 done really"


def follow(shown: Stage) -> None:
    """Look at the history as the app does every two seconds."""
    shown.app._next_poll_s = 0.0
    shown.app.beat()


@SIZES
async def test_a_second_screen_begins_a_new_chat_and_the_next_one_goes_on(size):
    ours, theirs, later = ScriptedEngine(), ScriptedEngine(), ScriptedEngine()
    with open_service(ours) as service:
        async with stage(service, ours, size=size) as shown:
            await shown.ask("mine")
            await shown.answer()
            with open_service(theirs) as other:
                async with stage(other, theirs, size=size) as second:
                    assert second.app.workspace.current.entries == []
                    await second.until_shown("Another localpaged is open")
                    assert [s.title for s in second.app.workspace.sessions] == ["mine"]
                    await second.ask("theirs")
                    await second.answer()
            assert shown.app.workspace.current.title == "mine"
    # nobody holds it any more
    with open_service(later) as service:
        async with stage(service, later, size=size) as third:
            assert third.app.workspace.current.title == "theirs"
            assert "Another localpaged" not in third.text
