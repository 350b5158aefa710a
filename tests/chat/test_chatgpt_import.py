"""Conversations of ChatGPT become chats, with their branches and without the machinery."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from localpaged.chat.branches import BranchTree
from localpaged.chat.portable.importing import import_file
from localpaged.chat.portable.report import Outcome
from localpaged.store.store import Store


def node(name: str, parent: str | None, role: str = "", *parts: Any, **more: Any) -> dict[str, Any]:
    """An entry of a mapping."""
    message = None
    if role:
        content = more.pop("content", {"content_type": "text", "parts": list(parts)})
        message = {"author": {"role": role}, "content": content, "create_time": 5.0, **more}
    return {name: {"id": name, "message": message, "parent": parent, "children": []}}


def conversation(*nodes: dict[str, Any], current: Any = "", **more: Any) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for entry in nodes:
        mapping |= entry
    return {
        "title": "Trip",
        "create_time": 1_700_000_000.5,
        "update_time": 1_700_000_100.5,
        "conversation_id": "abc-123",
        "mapping": mapping,
        "current_node": current,
        **more,
    }


def load(store: Store, tmp_path: Path, *conversations: Any):
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(list(conversations)))
    return import_file(store, path)


def texts(store: Store, chat_id: str) -> list[tuple[str, str]]:
    chat = store.chat(chat_id)
    return [(message.role, message.text) for message in store.path_to(chat.tip_hash)]


BRANCHED = conversation(
    node("root", None),
    node("s", "root", "system", ""),
    node("q", "s", "user", "Where to?"),
    node("a1", "q", "assistant", "Rome", metadata={"model_slug": "gpt-4"}),
    node("a2", "q", "assistant", "Oslo"),
    node("q2", "a2", "user", "And then?"),
    current="q2",
)


def test_a_tree_with_branches_is_taken_whole(store: Store, tmp_path: Path):
    (imported,) = load(store, tmp_path, BRANCHED).chats
    assert imported.outcome is Outcome.NEW
    chat = imported.chat
    assert (chat.title, chat.created_at, chat.updated_at) == (
        "Trip",
        1_700_000_000.5,
        1_700_000_100.5,
    )
    assert texts(store, chat.id) == [
        ("user", "Where to?"),
        ("assistant", "Oslo"),
        ("user", "And then?"),
    ]
    whole = store.whole_chat(chat.id)
    rome = next(message for message in whole.messages if message.text == "Rome")
    siblings = BranchTree(store.chat_tree(chat.id)[1]).siblings(rome.hash)
    assert siblings is not None and len(siblings.keys) == 2
    assert next(turn.model for turn in whole.turns if turn.tip_hash == rome.hash) == "gpt-4"
    assert len(store.search("rome").hits) == 1


def test_twice_is_once(store: Store, tmp_path: Path):
    (first,) = load(store, tmp_path, BRANCHED).chats
    before = store.whole_chat(first.chat.id)
    (again,) = load(store, tmp_path, BRANCHED).chats
    assert again.outcome is Outcome.KNOWN
    assert store.whole_chat(first.chat.id) == before
    assert len(store.chats()) == 1


def test_an_answer_around_a_tool_is_one_answer(store: Store, tmp_path: Path):
    report = load(
        store,
        tmp_path,
        conversation(
            node("q", None, "user", "Weather?"),
            node("a", "q", "assistant", "Let me look."),
            node("call", "a", "assistant", "search()", recipient="browser"),
            node("t", "call", "tool", "<html>"),
            node(
                "hidden", "t", "user", "x", metadata={"is_visually_hidden_from_conversation": True}
            ),
            node("think", "hidden", "assistant", content={"content_type": "thoughts"}),
            node("b", "think", "assistant", "Sunny."),
            current="b",
        ),
    )
    assert report.problems == ()
    assert texts(store, report.chats[0].chat.id) == [
        ("user", "Weather?"),
        ("assistant", "Let me look.\n\nSunny."),
    ]
    assert len(store.whole_chat(report.chats[0].chat.id).messages) == 2


def test_a_system_text_is_taken_at_the_beginning_alone(store: Store, tmp_path: Path):
    report = load(
        store,
        tmp_path,
        conversation(
            node("s", None, "system", "Be brief."),
            node("q", "s", "user", "Hi"),
            node("note", "q", "system", "The user is in Rome."),
            node("a", "note", "assistant", "Ciao"),
            current="a",
        ),
    )
    assert texts(store, report.chats[0].chat.id) == [
        ("system", "Be brief."),
        ("user", "Hi"),
        ("assistant", "Ciao"),
    ]


def test_pictures_are_told_in_words(store: Store, tmp_path: Path):
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file:///etc/passwd"}
    content = {"content_type": "multimodal_text", "parts": [picture, "What is it?"]}
    report = load(
        store, tmp_path, conversation(node("q", None, "user", content=content), current="q")
    )
    assert texts(store, report.chats[0].chat.id) == [
        ("user", "[not a text: image_asset_pointer]\n\nWhat is it?")
    ]


def test_bad_and_partial_records_are_told_and_the_rest_is_taken(store: Store, tmp_path: Path):
    broken = conversation(
        node("q", None, "user", "Hi"),
        {"x": 5, "y": {"parent": "q", "message": {"author": None}}},
        node("lost", "nowhere", "user", "orphan"),
        node("r1", "r2", "user", "ring"),
        node("r2", "r1", "user", "ring"),
        node("p", "q", "assistant", 7),
        node("a", "q", "assistant", "Hello\ud800\0"),
        current=["?"],
        title=None,
        create_time="yesterday",
        conversation_id="broken",
    )
    report = load(store, tmp_path, None, {"no": "mapping"}, broken, BRANCHED)
    assert [imported.chat.title for imported in report.chats] == ["", "Trip"]
    assert report.num_problems >= 6
    told = " ".join(report.problems)
    for part in ("conversation 1", "conversation 2", "is missing", "ring", "parts"):
        assert part in told
    assert ("assistant", "Hello\ufffd\ufffd") in texts(store, report.chats[0].chat.id)


def test_a_question_at_the_end_of_a_branch_is_kept(store: Store, tmp_path: Path):
    report = load(
        store,
        tmp_path,
        conversation(
            node("q", None, "user", "One"),
            node("a", "q", "assistant", "Two"),
            node("q3", "a", "user", "Unanswered"),
            node("q4", "a", "user", "Answered"),
            node("a4", "q4", "assistant", "Yes"),
            current="a4",
        ),
    )
    chat_id = report.chats[0].chat.id
    tree = BranchTree(store.chat_tree(chat_id)[1])
    answered = next(m for m in store.whole_chat(chat_id).messages if m.text == "Answered")
    siblings = tree.siblings(answered.hash)
    assert siblings is not None and len(siblings.keys) == 2


def test_a_long_chain_needs_no_recursion(store: Store, tmp_path: Path):
    nodes = [
        node(str(n), str(n - 1) if n else None, ("user", "assistant")[n % 2], str(n))
        for n in range(3_000)
    ]
    (imported,) = load(store, tmp_path, conversation(*nodes, current="2999")).chats
    assert len(store.path_to(imported.chat.tip_hash)) == 3_000


def test_a_single_conversation_is_taken_too(store: Store, tmp_path: Path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps(BRANCHED))
    assert len(import_file(store, path).chats) == 1
