"""A chat's ways as stretches: none is missing, none is told twice, and the shown one is marked."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from localpaged.chat.branch_map import stretches_of
from localpaged.store.rows import Chat, Message
from localpaged.store.tree import make_message
from localpaged.store.whole_chat import WholeChat
from testkit.builders import make_turn


def whole(parents: list[int], tip: int, *, silent: frozenset[int] = frozenset()) -> WholeChat:
    """A chat whose messages each follow an earlier one (-1: none); `silent` ones have no text."""
    messages: list[Message] = []
    for at, parent in enumerate(parents):
        above = None if parent < 0 else messages[parent]
        role = "user" if above is None or above.role == "assistant" else "assistant"
        text = "" if at in silent else f"text {at}"
        messages.append(make_message(above.hash if above else None, role, text))
    turns = [
        make_turn(turn_id=f"{at:04}", parent_hash=message.parent_hash, tip_hash=message.hash)
        for at, message in enumerate(messages)
    ]
    chat = Chat("chat", "title", messages[tip].hash, "", "", 1.0, 1.0)
    return WholeChat(chat, sorted(messages, key=lambda message: message.hash), turns)


def told(chat: WholeChat) -> list[tuple[str, int, int, str, bool]]:
    return [
        (s.first.text, s.num_messages, s.depth, f"{s.version}/{s.versions}", s.is_tip)
        for s in stretches_of(chat)
    ]


def test_one_way_is_one_stretch():
    assert told(whole([-1, 0, 1, 2], 3)) == [("text 0", 4, 0, "1/1", True)]


def test_ways_that_part_are_told_below_where_they_do_in_their_order():
    # two answers to the first question, two questions behind the second answer
    chat = whole([-1, 0, 0, 2, 3, 2, 5], 4)
    assert told(chat) == [
        ("text 0", 1, 0, "1/1", False),
        ("text 1", 1, 1, "1/2", False),
        ("text 2", 1, 1, "2/2", False),
        ("text 3", 2, 2, "1/2", True),
        ("text 5", 2, 2, "2/2", False),
    ]
    assert [s.is_shown for s in stretches_of(chat)] == [True, False, True, True, False]


def test_an_answer_without_a_word_is_no_way():
    assert told(whole([-1, 0, 0], 1, silent=frozenset({2}))) == [("text 0", 2, 0, "1/1", True)]


def test_a_first_question_that_was_edited_is_two_ways_from_the_beginning():
    assert told(whole([-1, 0, -1, 2], 3)) == [
        ("text 0", 2, 0, "1/2", False),
        ("text 2", 2, 0, "2/2", True),
    ]


def test_ten_thousand_messages_need_no_stack():
    (stretch,) = stretches_of(whole([*range(-1, 9_999)], 9_999))
    assert stretch.num_messages == 10_000


@settings(max_examples=50)
@given(st.data())
def test_every_message_is_in_one_stretch_and_one_has_the_end(data):
    num = data.draw(st.integers(1, 20))
    parents = [data.draw(st.integers(-1, at - 1)) for at in range(num)]
    chat = whole(parents, data.draw(st.integers(0, num - 1)))
    stretches = stretches_of(chat)
    assert sum(stretch.num_messages for stretch in stretches) == num
    assert len({stretch.first.hash for stretch in stretches}) == len(stretches)
    assert sum(stretch.is_tip for stretch in stretches) == 1
