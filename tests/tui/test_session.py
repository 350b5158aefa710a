"""What the UI knows of a chat, fed by events."""

from __future__ import annotations

import pytest

from localpaged.chat.events import TurnEnded, TurnPrefill, TurnText
from localpaged.engine.events import Usage
from localpaged.engine.finish_reason import FinishReason
from localpaged.errors import StepFailed
from localpaged.store.rows import Chat, Exchange, Message, Turn, TurnStatus
from localpaged.tui.session import NEW_CHAT_TITLE, Answer, ChatState, Draft, Question, SessionModel

USAGE = Usage(prompt_tokens=10, cached_tokens=4, completion_tokens=3, ttft_s=0.1, decode_s=0.2)


def turn(turn_id: str = "t1", status: TurnStatus = TurnStatus.QUEUED, **values) -> Turn:
    return Turn(turn_id, "c", None, None, status, "m", **values)


def chat(**values) -> Chat:
    row = {"id": "c", "title": "", "tip_hash": None, "model": "", "draft": ""}
    return Chat(**{**row, "created_at": 0.0, "updated_at": 0.0, **values})


def asked(*turns: Turn) -> SessionModel:
    session = SessionModel(chat())
    for number, each in enumerate(turns or (turn(),)):
        session.add_sent(f"question {number}", each)
    return session


def text(piece: str, offset: int, count: int = 1, turn_id: str = "t1") -> TurnText:
    return TurnText("c", turn_id, piece, count, offset)


def ended(status: TurnStatus, turn_id: str = "t1", **values) -> TurnEnded:
    row = {"finish_reason": None, "usage": None, "error": None, **values}
    return TurnEnded("c", turn_id, status, **row)


def last(session: SessionModel) -> Answer:
    assert session.last_answer is not None
    return session.last_answer


def making(session: SessionModel) -> Answer:
    assert session.open_answer is not None
    return session.open_answer


def test_text_is_appended_at_its_offset_and_never_twice():
    session = asked()
    session.take(text("Hello", 0), now_s=1.0)
    session.take(text("Hello, w", 0), now_s=1.1)
    session.take(text(", world", 5), now_s=1.2)
    assert last(session).text == "Hello, world"


def test_events_of_an_unknown_turn_are_ignored():
    session = asked()
    session.take(text("x", 0, turn_id="other"), now_s=0.0)
    assert last(session).text == ""


@pytest.mark.parametrize(
    ("event", "state"),
    [
        (None, ChatState.QUEUED),
        (TurnPrefill("c", "t1", 0, 5, 10), ChatState.READING),
        (text("x", 0), ChatState.GENERATING),
        (ended(TurnStatus.DONE), ChatState.IDLE),
        (ended(TurnStatus.STOPPED), ChatState.IDLE),
        (ended(TurnStatus.INTERRUPTED), ChatState.INTERRUPTED),
        (ended(TurnStatus.ERROR, error=StepFailed("no")), ChatState.ERROR),
    ],
)
def test_the_state_follows_the_events(event, state):
    session = asked()
    if event is not None:
        session.take(event, now_s=0.0)
    assert session.state is state


def test_a_finished_chat_nobody_looked_at_is_unread():
    session = asked()
    session.take(ended(TurnStatus.DONE), now_s=0.0)
    session.is_unread = True
    assert session.state is ChatState.UNREAD


def test_the_oldest_open_answer_is_the_one_being_made():
    session = asked(turn("t1"), turn("t2"))
    assert making(session).turn.id == "t1"
    session.take(ended(TurnStatus.DONE), now_s=0.0)
    assert making(session).turn.id == "t2"


def test_an_error_brings_its_message_and_hint():
    session = asked()
    session.take(ended(TurnStatus.ERROR, error=StepFailed("broke", hint="again")), now_s=0.0)
    answer = last(session)
    assert (answer.error, answer.hint) == ("broke", "again")


def test_only_a_last_answer_that_broke_off_can_be_continued():
    session = asked()
    session.take(ended(TurnStatus.STOPPED), now_s=0.0)
    stopped = last(session)
    assert stopped.can_continue
    session.add_sent("next", turn("t2"))
    assert not stopped.can_continue
    session.take(ended(TurnStatus.DONE, "t2", finish_reason=FinishReason.STOP), now_s=0.0)
    assert not last(session).can_continue


def test_an_answer_cut_by_its_length_can_be_continued():
    session = asked()
    session.take(ended(TurnStatus.DONE, finish_reason=FinishReason.LENGTH), now_s=0.0)
    assert last(session).can_continue


def test_going_on_keeps_the_text():
    session = asked()
    session.take(text("so far", 0, 2), now_s=0.0)
    session.take(ended(TurnStatus.STOPPED), now_s=0.0)
    session.reopen(turn(partial_text="so far", completion_tokens=2))
    session.take(text(", and on", 6, 5), now_s=1.0)
    assert last(session).text == "so far, and on"
    assert last(session).is_open


def test_a_saved_transcript_is_read_back():
    session = SessionModel(chat())
    done = turn(status=TurnStatus.DONE, prompt_tokens=10, completion_tokens=3, cached_tokens=4)
    session.load(
        [
            Exchange(Message("h0", None, "system", "be brief"), None),
            Exchange(Message("h1", "h0", "user", "hi"), None),
            Exchange(Message("h2", "h1", "assistant", "hello"), done),
            Exchange(None, turn("t2", TurnStatus.STREAMING, partial_text="half")),
        ]
    )
    system, question, answer, opened = session.entries
    assert system == Question("be brief", is_system=True)
    assert question == Question("hi")
    assert isinstance(answer, Answer)
    assert isinstance(opened, Answer)
    assert answer.usage is not None
    assert (answer.text, answer.usage.new_tokens, answer.is_last) == ("hello", 6, False)
    assert (opened.text, opened.is_open, opened.is_last) == ("half", True, True)


def test_the_title_is_the_chats_or_the_first_words():
    assert SessionModel().title == NEW_CHAT_TITLE
    assert asked().title == "question 0"
    assert SessionModel(chat(title="Named")).title == "Named"


def test_a_draft_puts_pasted_text_back():
    draft = Draft("see [pasted 3 lines] ok", {"[pasted 3 lines]": "a\nb\nc"})
    assert draft.full == "see a\nb\nc ok"
