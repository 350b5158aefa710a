"""Going back in a chat: another answer, another question, versions, forks; nothing is lost."""

from __future__ import annotations

from localpaged.store.rows import TurnStatus
from localpaged.tui.glyphs import ASCII
from testkit.going_back import answered, finish, lines, numbered, read
from testkit.screens import LARGE, SMALL, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES


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
            await shown.say("follows")
            await shown.step(2)
            await shown.press("ctrl+r")
            assert lines(shown) == ["q", "", "follows", ""]
            await finish(shown)
            assert lines(shown) == ["q", "answer 2 done really", "follows", "answer 3 done really"]
            assert "‹2/2›" in shown.text
            await read(shown, "k", "k", "k", "[")
            assert lines(shown) == ["q", "answer 1"]


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
            assert "before its first message" in shown.text
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
                await shown.say(name)
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
            for key, told in (("ctrl+r", "no answer to regenerate"), ("ctrl+f", "nothing to fork")):
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
            await shown.until_shown("word for word")
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


async def test_a_message_that_waits_is_neither_edited_nor_forked_at():
    engine = numbered()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("running")
            await shown.say("waiting")
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
