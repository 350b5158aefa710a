"""Chats as files: written, read back, and never twice."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localpaged.chat.portable.exporting import export_to, file_name
from localpaged.chat.portable.file_format import FileFormat
from localpaged.chat.portable.importing import import_file
from localpaged.chat.portable.report import ImportReport, Outcome
from localpaged.chat.title import one_line
from localpaged.errors import BadChatFile
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store, new_id
from localpaged.store.tree import make_message
from localpaged.store.writes import Write, change_chat
from testkit.builders import make_chat, make_turn

HOSTILE = "\x1b]52;c;x\x07\r\n\u202e```\n---\n<!-- message user -->\n## You\n\n[b]x[/] \ufeff\n"


@pytest.fixture
def other(tmp_path: Path):
    store = Store.open(tmp_path / "other.db")
    yield store
    store.close()


def write_branched(store: Store, text: str = "hello") -> str:
    """A chat with two answers to one question and all there is to tell of them."""
    chat_id = new_id()
    system = make_message(None, "system", "Be brief.")
    asked = make_message(system.hash, "user", text)
    answers = [make_message(asked.hash, "assistant", f"{text} {n}") for n in (1, 2)]
    chat = replace(make_chat(store, chat_id=chat_id), title=one_line(f"About {text}"[:40]))
    turns = [
        replace(
            make_turn(turn_id=new_id(), chat_id=chat_id, parent_hash=asked.hash),
            tip_hash=answer.hash,
            status=TurnStatus.DONE,
            options='{"temperature": 0.5, "stop": ["x"]}',
            seed=7 + number,
            prompt_tokens=30,
            completion_tokens=4,
            ttft_s=0.25,
            created_at=10.0 + number,
            thought='{"start": 0, "end": 1, "after": 2, "seconds": 1.0, "tokens": 3}',
        )
        for number, answer in enumerate(answers)
    ]
    change = change_chat(
        chat_id, title=chat.title, tip_hash=answers[0].hash, options='{"top_k": 9}', system="Long."
    )
    store.submit(
        Write(messages=(system, asked, *answers), chat_changes=(change,), turns=turns)
    ).result(10)
    return chat_id


def outcomes(report: ImportReport) -> list[Outcome]:
    return [imported.outcome for imported in report.chats]


def assert_same(one: Store, other: Store, chat_id: str) -> None:
    mine, theirs = one.whole_chat(chat_id), other.whole_chat(chat_id)
    assert set(theirs.messages) == set(mine.messages)
    assert list(theirs.turns) == list(mine.turns)
    # which model answers is chosen on each machine
    assert replace(theirs.chat, base_hash=None) == replace(mine.chat, model="", base_hash=None)


def test_json_has_everything_and_comes_back_the_same(store: Store, other: Store, tmp_path: Path):
    ids = [write_branched(store), write_branched(store, HOSTILE)]
    path = export_to(store, ids, FileFormat.JSON, tmp_path / "out.json")
    assert outcomes(import_file(other, path)) == [Outcome.NEW, Outcome.NEW]
    for chat_id in ids:
        assert_same(store, other, chat_id)


def test_importing_twice_makes_nothing_twice(store: Store, other: Store, tmp_path: Path):
    chat_id = write_branched(store)
    for kind in FileFormat:
        path = export_to(store, [chat_id], kind, tmp_path)
        import_file(other, path)
        before = other.whole_chat(chat_id)
        assert outcomes(import_file(other, path)) == [Outcome.KNOWN]
        assert other.whole_chat(chat_id) == before
        # and where it came from nothing is new either
        mine = store.whole_chat(chat_id)
        assert outcomes(import_file(store, path)) == [Outcome.KNOWN]
        assert store.whole_chat(chat_id) == mine
    assert len(other.chats()) == 1


def test_a_chat_that_went_on_elsewhere_grows_and_an_older_file_takes_nothing_back(
    store: Store, other: Store, tmp_path: Path
):
    chat_id = write_branched(store)
    old = export_to(store, [chat_id], FileFormat.JSON, tmp_path / "old.json")
    import_file(other, old)
    tip = store.chat(chat_id).tip_hash
    asked = make_message(tip, "user", "go on")
    answered = make_message(asked.hash, "assistant", "gladly")
    turn = make_turn(
        turn_id=new_id(),
        chat_id=chat_id,
        parent_hash=asked.hash,
        tip_hash=answered.hash,
        status=TurnStatus.DONE,
    )
    change = change_chat(chat_id, tip_hash=answered.hash)
    store.submit(Write(messages=(asked, answered), turns=(turn,), chat_changes=(change,))).result(
        10
    )
    new = export_to(store, [chat_id], FileFormat.JSON, tmp_path / "new.json")
    assert outcomes(import_file(other, new)) == [Outcome.GREW]
    assert other.chat(chat_id).tip_hash == answered.hash
    assert outcomes(import_file(other, old)) == [Outcome.KNOWN]
    assert other.chat(chat_id).tip_hash == answered.hash


def test_importing_a_deleted_chat_brings_it_back(store: Store, tmp_path: Path):
    chat_id = write_branched(store)
    path = export_to(store, [chat_id], FileFormat.JSON, tmp_path)
    store.submit(Write(chat_changes=(change_chat(chat_id, deleted_at=5.0),))).result(10)
    import_file(store, path)
    assert [chat.id for chat in store.chats()] == [chat_id]


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    texts=st.lists(
        st.one_of(
            st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40),
            st.sampled_from([HOSTILE, "```\n", "\n\n", "", "<!-- message end -->\n", "---\n"]),
        ),
        min_size=1,
        max_size=4,
    ),
    title=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30),
)
def test_markdown_gives_every_text_back_to_the_letter(
    store: Store, other: Store, tmp_path: Path, texts: list[str], title: str
):
    chat_id = new_id()
    chat = make_chat(store, chat_id=chat_id, texts=texts)
    store.submit(Write(chat_changes=(change_chat(chat_id, title=title),)))
    path = export_to(store, [chat_id], FileFormat.MARKDOWN, tmp_path / "x.md", force=True)
    import_file(other, path)
    assert other.path_to(other.chat(chat_id).tip_hash) == store.path_to(chat.tip_hash)


def test_markdown_is_readable(store: Store, tmp_path: Path):
    chat_id = write_branched(store)
    text = export_to(store, [chat_id], FileFormat.MARKDOWN, tmp_path).read_text()
    front, _, body = text.partition("\n---\n")
    assert 'title: "About hello"' in front
    assert 'model: "fake-model"' in front
    assert "created: " in front
    assert 'system: "Long."' in front
    assert "## System\n\nBe brief.\n" in body
    assert "## You\n\nhello\n" in body
    assert "## Answer\n\nhello 1\n" in body
    assert "hello 2" not in body


def test_a_file_is_the_owners_alone_and_is_not_overwritten(store: Store, tmp_path: Path):
    chat_id = write_branched(store)
    path = export_to(store, [chat_id], FileFormat.JSON, tmp_path)
    assert path.name == "About-hello.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("mine")
    with pytest.raises(BadChatFile, match="there already"):
        export_to(store, [chat_id], FileFormat.JSON, path)
    assert path.read_text() == "mine"
    export_to(store, [chat_id], FileFormat.JSON, path, force=True)
    assert json.loads(path.read_text())["version"] == 1
    assert [p.name for p in tmp_path.iterdir() if "part" in p.name] == []


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("../../etc/passwd", "etc-passwd"),
        ("/", "chat"),
        ("a\x1b[2Jb", "a-2Jb"),
        ("..", "chat"),
        ("日本 語", "日本-語"),
        ("x" * 300, "x" * 60),
    ],
)
def test_a_title_is_never_a_path(title: str, name: str):
    assert file_name(title) == name


@pytest.mark.parametrize("name", ["a\0b", "a\ud83d"])
def test_a_name_that_no_file_can_have_is_told(store: Store, tmp_path: Path, name: str):
    chat_id = write_branched(store)
    with pytest.raises(BadChatFile, match="is not a path"):
        export_to(store, [chat_id], FileFormat.JSON, tmp_path / name)
    with pytest.raises(BadChatFile, match="is not there"):
        import_file(store, tmp_path / name)


def test_a_folder_that_is_not_there_is_told(store: Store, tmp_path: Path):
    chat_id = write_branched(store)
    with pytest.raises(BadChatFile, match="cannot be written"):
        export_to(store, [chat_id], FileFormat.JSON, tmp_path / "nowhere" / "x.json")


def test_a_file_longer_than_what_is_read_at_once_is_read(
    store: Store, other: Store, tmp_path: Path, monkeypatch
):
    monkeypatch.setattr("localpaged.chat.portable.json_stream.CHUNK_CHARS", 7)
    ids = [write_branched(store), write_branched(store, "number -1.5e3 true null \\u00e9")]
    path = export_to(store, ids, FileFormat.JSON, tmp_path / "out.json")
    assert len(import_file(other, path).chats) == 2
    for chat_id in ids:
        assert_same(store, other, chat_id)


def test_what_was_read_before_a_file_breaks_off_is_kept(store: Store, other: Store, tmp_path: Path):
    ids = [write_branched(store), write_branched(store, "second")]
    path = export_to(store, ids, FileFormat.JSON, tmp_path / "out.json")
    path.write_text(path.read_text()[:-200])
    report = import_file(other, path)
    assert [imported.chat.id for imported in report.chats] == ids[:1]
    assert "the rest of the file" in report.problems[0]


def test_a_chat_that_is_answering_is_left_as_it_is(store: Store, other: Store, tmp_path: Path):
    chat_id = write_branched(store)
    old = export_to(store, [chat_id], FileFormat.JSON, tmp_path / "old.json")
    import_file(other, old)
    tip = make_message(store.chat(chat_id).tip_hash, "user", "go on")
    change = change_chat(chat_id, tip_hash=tip.hash)
    store.submit(Write(messages=(tip,), chat_changes=(change,))).result(10)
    new = export_to(store, [chat_id], FileFormat.JSON, tmp_path / "new.json")
    before = other.whole_chat(chat_id)
    assert outcomes(import_file(other, new, is_answering=lambda _: True)) == [Outcome.BUSY]
    assert other.whole_chat(chat_id) == before
    assert outcomes(import_file(other, new)) == [Outcome.GREW]
    assert other.chat(chat_id).tip_hash == tip.hash


def test_an_import_can_be_stopped_between_two_chats(store: Store, other: Store, tmp_path: Path):
    ids = [write_branched(store), write_branched(store, "second")]
    path = export_to(store, ids, FileFormat.JSON, tmp_path / "out.json")
    report = import_file(other, path, may_go_on=lambda: False)
    assert [imported.chat.id for imported in report.chats] == ids[:1]
    assert "stopped" in report.problems[0]
    assert outcomes(import_file(other, path)) == [Outcome.KNOWN, Outcome.NEW]
