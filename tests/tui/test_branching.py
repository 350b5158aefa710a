"""Going back in a chat: another answer, another question, versions, forks; nothing is lost."""

from __future__ import annotations

import pytest

from localpaged.chat.service import ChatService
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from localpaged.tui.glyphs import ASCII
from testkit.builders import ready_model
from testkit.fake_model import read_prompt
from testkit.past_chats import write_chat
from testkit.screens import LARGE, SMALL, Stage, open_service, stage
from testkit.scripted_engine import ScriptedEngine

SIZES = pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "140x40"])
HOSTILE = "[bold]x[/] \x1b[31mred\x1b]0;t\x07 \u202eabc\u200b \ud83d end"


def numbered() -> ScriptedEngine:
    """Answers "answer 1", "answer 2", …, a word a step."""
    engine = ScriptedEngine(
        lambda request: (f"answer {len(engine.submitted) + 1}", " done", " really")
    )
    return engine


async def answered(shown: Stage, *texts: str) -> None:
    for text in texts:
        await shown.ask(text)
        await shown.answer()


async def finish(shown: Stage) -> None:
    """Let the engine answer until the app has nothing to wait for."""

    def is_done() -> bool:
        shown.engine.run_until_idle()
        return not shown.app.workspace.running

    await shown.until(is_done)
    await shown.beat()


async def read(shown: Stage, *keys: str) -> None:
    """Go to the transcript and press keys there."""
    shown.transcript.focus()
    await shown.settle()
    await shown.press(*keys)


def lines(shown: Stage) -> list[str]:
    return [entry.text for entry in shown.app.workspace.current.entries]


@SIZES
async def test_an_answer_is_made_again_and_the_old_one_stays(size):
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await answered(shown, "q")
            await shown.press("ctrl+r")
            await shown.until(lambda: len(engine.submitted) == 2)
            await shown.step(2)
            assert "‹2/2›" in shown.text
            assert "answer 1" not in shown.text
            await shown.answer()
            assert lines(shown) == ["q", "answer 2 done really"]

            await read(shown, "k", "[")
            assert "‹1/2›" in shown.text
            assert lines(shown) == ["q", "answer 1 done really"]
            await shown.press("[")
            assert "first one" in shown.text
            await shown.press("]")
            assert "‹2/2›" in shown.text


async def test_versions_have_an_ascii_twin():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, glyphs=ASCII) as shown:
            await answered(shown, "q")
            await shown.press("ctrl+r")
            await finish(shown)
            assert "<2/2>" in shown.text
            assert "‹" not in shown.text


@SIZES
async def test_a_running_answer_is_stopped_and_made_again(size):
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask("q")
            await shown.write("follows")
            await shown.press("enter")
            await shown.step(2)
            await shown.press("ctrl+r")
            assert lines(shown) == ["q", "", "follows", ""]
            await finish(shown)
            assert lines(shown) == ["q", "answer 2 done really", "follows", "answer 3 done really"]
            assert "‹2/2›" in shown.text
            await read(shown, "k", "k", "k", "[")
            assert lines(shown) == ["q", "answer 1"]


@SIZES
async def test_a_message_is_edited_as_a_branch(size):
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await answered(shown, "first", "second")
            await shown.write("half a thought")
            await read(shown, "k", "k", "e")
            assert shown.prompt.text == "second"
            assert shown.app.focused is shown.prompt
            assert "editing a message" in shown.text
            assert "Esc leaves it" in shown.text
            await shown.write(", better")
            await shown.press("enter")
            assert shown.prompt.text == "half a thought"
            assert "editing a message" not in shown.text
            await finish(shown)
            assert lines(shown)[2:] == ["second, better", "answer 3 done really"]
            assert "‹2/2›" in shown.text
            *told, _ = read_prompt(engine.submitted[-1].prompt_ids)
            assert [text for _, text in told][-1] == "second, better"

            await read(shown, "k", "k", "[")
            assert lines(shown)[2:] == ["second", "answer 2 done really"]


async def test_an_edit_tells_what_it_reuses():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await answered(shown, "first", "second")
            before = shown.app.workspace.current.entries[1].usage
            last = shown.last_answer.usage
            tokens = [u.prompt_tokens + u.completion_tokens for u in (before, last)]
            await read(shown, "e")
            assert f"reuses {tokens[0]} of {tokens[1]} tokens" in shown.text


@pytest.mark.parametrize("leave", ["escape", "ctrl+c"])
async def test_an_edit_that_is_left_brings_the_draft_back(leave):
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await answered(shown, "first")
            await shown.write("draft")
            await read(shown, "e")
            await shown.write(" changed")
            await shown.press(leave)
            assert shown.prompt.text == "draft"
            assert "editing a message" not in shown.text
            assert lines(shown) == ["first", "answer 1 done really"]
            await shown.press("up")
            assert shown.prompt.text == "first changed"


async def test_an_edit_waits_while_another_chat_is_looked_at_and_is_no_draft():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await answered(shown, "first")
            await shown.write("draft")
            await read(shown, "e")
            await shown.write("!")
            await shown.press("ctrl+n")
            assert shown.prompt.text == ""
            assert "editing a message" not in shown.text
            await shown.press("alt+2")
            assert shown.prompt.text == "first!"
            assert "editing a message" in shown.text
            await shown.press("escape")
            assert shown.prompt.text == "draft"
            service._store.writer.flush()
            assert service.chats()[0].draft == "draft"


@pytest.mark.parametrize("end", ["enter", "escape"])
async def test_an_edit_that_is_not_sent_yet_survives_a_crash_beside_the_draft(end):
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await answered(shown, "first")
            await shown.write("draft")
            await read(shown, "e")
            shown.app.commands.drafts.keep()
            assert service.chats()[0].draft == "draft"
            await shown.write(" edited")
            shown.app.commands.drafts.keep()
            assert service.chats()[0].draft == "draft\nfirst edited"
            await shown.press(end)
            await finish(shown)
            assert service.chats()[0].draft == shown.prompt.text == "draft"


async def test_what_looks_like_a_command_is_edited_as_text():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("//etc/hosts?")
            await shown.answer()
            await read(shown, "e")
            assert shown.prompt.text == "//etc/hosts?"
            await shown.press("enter")
            await finish(shown)
            assert lines(shown)[0] == "/etc/hosts?"


async def test_an_edit_that_is_refused_stays_in_the_prompt():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await answered(shown, "first")
            await read(shown, "e")
            service.delete(shown.app.workspace.current.id)
            await shown.write("!")
            await shown.press("enter")
            assert "is deleted" in shown.text
            assert shown.prompt.text == "first!"
            assert "editing a message" in shown.text


@SIZES
async def test_a_fork_is_listed_below_its_origin_and_goes_its_own_way(size):
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await answered(shown, "origin", "more")
            origin = shown.app.workspace.current
            await shown.press("ctrl+f")
            fork = shown.app.workspace.current
            assert fork is not origin
            assert lines(shown) == lines_of(origin)
            assert "4 messages shared" in shown.text
            await answered(shown, "own way")
            assert fork.title == "own way"
            assert [s.depth for s in shown.app.workspace.sessions] == [0, 1]
            assert origin.entries[-1].text == "answer 2 done really"
            if size is LARGE:
                assert "↳ own way" in shown.text


def lines_of(session) -> list[str]:
    return [entry.text for entry in session.entries]


async def test_a_fork_at_a_message_ends_there_and_at_a_question_has_it_as_draft():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await answered(shown, "first", "second")
            await read(shown, "k", "k", "k", "f")
            assert lines(shown) == ["first", "answer 1 done really"]
            assert shown.prompt.text == ""
            await shown.press("alt+1")
            await read(shown, "k", "k", "f")
            assert lines(shown) == ["first", "answer 1 done really"]
            assert shown.prompt.text == "second"


async def test_a_fork_while_an_answer_runs_has_its_question_as_draft():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("running")
            await shown.step(2)
            await shown.press("ctrl+f")
            assert (lines(shown), shown.prompt.text) == ([], "running")
            await finish(shown)


async def test_a_fork_shows_its_own_blocks_and_others_all_of_theirs():
    engine = ScriptedEngine(lambda request: tuple("abcdefgh" * 9))
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE, glyphs=ASCII) as shown:
            await shown.ask("a question that fills some blocks of memory, and one that is open")
            await shown.step(4)
            (view,) = engine.snapshot().sequences
            assert f" {view.own_blocks}b" in shown.text
            await shown.answer()
            await shown.press("ctrl+f")
            await shown.ask("own")
            await shown.step(4)
            (view,) = engine.snapshot().sequences
            assert f"+{view.own_blocks}b" in shown.text


async def test_a_message_in_the_middle_is_answered_again():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await answered(shown, "first", "second")
            await read(shown, "k", "k", "k", "r")
            await finish(shown)
            assert lines(shown) == ["first", "answer 3 done really"]
            await read(shown, "k", "[")
            assert lines(shown)[2:] == ["second", "answer 2 done really"]


async def test_slash_commands_do_what_the_keys_do():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await answered(shown, "q")
            for name, expected in (("/regenerate", 2), ("/edit", 2), ("/fork", 2)):
                await shown.write(name)
                await shown.press("enter")
                await finish(shown)
                assert len(engine.submitted) == expected
                if name == "/edit":
                    assert shown.prompt.text == "q"
                    await shown.press("escape")
            assert shown.app.workspace.current.chat.forked_from is not None


async def test_with_nothing_to_go_back_to_it_is_said():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            for key, told in (("ctrl+r", "no answer to make"), ("ctrl+f", "nothing to fork")):
                await shown.press(key)
                assert told in shown.text
            await read(shown, "e")
            assert "no message of yours" in shown.text
            await answered(shown, "q")
            await read(shown, "]")
            assert "no other version" in shown.text


async def test_the_same_words_again_are_said_to_be_the_same():
    engine = ScriptedEngine(lambda request: ("same",))
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await answered(shown, "q1", "q2")
            await read(shown, "k", "k", "k", "r")
            await finish(shown)
            assert "word for word" in shown.text
            assert lines(shown) == ["q1", "same", "q2", "same"]


async def test_the_cursor_stays_where_it_was_when_another_version_is_shown():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=SMALL) as shown:
            await answered(shown, *(f"q{n}" for n in range(8)))
            await read(shown, *["k"] * 8, "r")
            await finish(shown)
            await read(shown, "k", "[")
            row = next(i for i, line in enumerate(shown.text.split("\n")) if "‹1/2›" in line)
            await shown.press("]")
            rows = shown.text.split("\n")
            assert "‹2/2›" in rows[row]
            assert shown.transcript.marked_entry == 9


async def test_hostile_text_is_edited_exactly():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await answered(shown, "q")
            chat = shown.app.workspace.current
            service.edit(chat.id, service.transcript(chat.id)[0].key, HOSTILE)
            await shown.until(lambda: len(engine.submitted) == 2)
            engine.run_until_idle()
            await shown.beat()
            shown.app.commands.branches.reshow(chat)
            text = lines(shown)[0]
            await read(shown, "e")
            assert shown.prompt.draft.full == text
            assert "\x1b" not in shown.text.replace("\n", "")
            await shown.press("enter")
            await finish(shown)
            assert lines(shown)[0] == text
            await shown.press("ctrl+f")


async def test_a_message_that_waits_is_neither_edited_nor_forked_at():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("running")
            await shown.write("waiting")
            await shown.press("enter")
            for key, told in (("e", "waits for its turn"), ("f", "no place in the chat yet")):
                await read(shown, "k", "k", key)
                assert told in shown.text
                await shown.press("enter")
            await finish(shown)


async def test_an_answer_of_an_older_history_without_its_turn_is_an_answer_still():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await answered(shown, "q")
            current = shown.app.workspace.current
            service._store.writer.flush()
            fork = service.fork(current.id, service.transcript(current.id)[1].key)
            shown.app.workspace.refresh()
            session = shown.app.workspace.find(fork.id)
            assert session is not None
            session.load([replace_turn(line) for line in service.transcript(fork.id)])
            assert session.last_answer is not None
            assert session.last_answer.status is TurnStatus.DONE


def replace_turn(line):
    from dataclasses import replace

    return replace(line, turn=None)


async def test_a_chat_that_ended_in_the_background_is_unread_after_a_restart():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.ask("first")
            await shown.press("ctrl+n")
            await answered(shown, "second")
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            states = {s.title: s.state.value for s in shown.app.workspace.sessions}
            assert states == {"second": "idle", "first": "unread"}
            await shown.press("alt+2")
    with open_service(numbered()) as service:
        assert [chat.is_unread for chat in service.chats()] == [False, False]


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
