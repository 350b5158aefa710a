"""The history is looked over without a byte being changed, whoever has it open."""

from __future__ import annotations

import os
import shutil
import sqlite3

import pytest

from localpaged import paths
from localpaged.doctor import history as history_module
from localpaged.doctor.fact import Verdict
from localpaged.doctor.history import copies_facts, history_facts, users_facts
from localpaged.errors import DatabaseDamaged, StoreError
from localpaged.store import checkup
from localpaged.store.checkup import Holder, check_up, holders
from localpaged.store.facts import read_facts
from localpaged.store.scope import ChatScope
from localpaged.store.store import Store
from localpaged.store.writes import Write, change_chat
from testkit.past_chats import write_chat

HOSTILE = "\x1b]0;x\x07 [b]\u202e"


def told():
    return {fact.name: fact for fact in history_facts(paths.database_file())}


def files():
    folder = paths.database_file().parent
    return {
        path.name: (path.stat().st_size, path.stat().st_mtime_ns, path.stat().st_mode)
        for path in folder.iterdir()
    }


def test_answers_of_a_compare_are_no_chats_that_are_counted(home):
    path = paths.database_file()
    write_chat([("a question", "an answer")])
    compared = write_chat([("a question", "another answer")])
    store = Store.open()
    store.submit(Write(chat_changes=(change_chat(compared, is_hidden=True),)))
    num_listed = len(store.chats(ChatScope.ALL))
    store.close()
    assert told()["history"].numbers["chats"] == read_facts(path).chats == num_listed == 1
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE chats DROP COLUMN is_hidden")
    assert told()["history"].numbers["chats"] == read_facts(path).chats == 2


@pytest.fixture
def past(home):
    write_chat([("a question", "an answer")], title=HOSTILE)
    return paths.database_file()


def test_a_history_is_whole_and_nothing_beside_it_is_made(past):
    before = files()
    facts = told()
    assert {fact.verdict for fact in facts.values()} == {Verdict.OK}
    assert facts["history"].numbers["chats"] == 1
    assert facts["history pages"].value == "whole"
    assert "the latest" in facts["history schema"].value
    assert files() == before


def test_no_history_yet_is_no_problem_and_none_is_made(home):
    assert told()["history"].verdict is Verdict.OK
    assert not paths.database_file().exists()


def test_what_an_open_program_wrote_last_is_seen_and_its_log_is_left_to_it(past):
    store = Store.open()
    try:
        found = check_up(past, limit_s=5)
        before = files()
        assert found.is_whole and found.log_bytes > 0
        assert told()["history pages"].value == "whole"
        assert files() == before
    finally:
        store.close()


def test_a_log_that_was_copied_without_its_index_is_left_alone(past, tmp_path):
    store = Store.open()
    try:
        for suffix in ("", "-wal"):
            shutil.copy(past.with_name(past.name + suffix), tmp_path / f"chats.db{suffix}")
    finally:
        store.close()
    (fact,) = history_facts(tmp_path / "chats.db")
    assert fact.verdict is Verdict.NOTE
    assert not (tmp_path / "chats.db-shm").exists()


def test_a_history_without_a_log_is_read_with_its_locks(past):
    db = sqlite3.connect(past)
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(StoreError, match="locked by another program"):
            told()
    finally:
        db.close()
    before = files()
    assert told()["history pages"].value == "whole"
    assert files() == before


def test_a_program_that_begins_to_write_meanwhile_is_no_damage(past, monkeypatch):
    ways = iter(["immutable=1", "mode=ro", "mode=ro"])
    monkeypatch.setattr(checkup, "_how", lambda _: next(ways))
    looked = checkup._looked

    def torn(path, how, limit_s):
        if how == "immutable=1":
            raise DatabaseDamaged("torn")
        return looked(path, how, limit_s)

    monkeypatch.setattr(checkup, "_looked", torn)
    assert check_up(past, limit_s=5).is_whole


def test_pages_that_are_overwritten_are_damage(past):
    content = bytearray(past.read_bytes())
    (page_bytes,) = sqlite3.connect(past).execute("PRAGMA page_size").fetchone()
    for page in range(1, len(content) // page_bytes):
        content[page * page_bytes : page * page_bytes + 100] = b"\xff" * 100
    past.write_bytes(content)
    with pytest.raises(DatabaseDamaged) as raised:
        told()
    assert "Move it away" in raised.value.hint


def test_a_file_that_is_no_database_is_told(past):
    past.write_bytes(b"not a database" * 100)
    with pytest.raises(DatabaseDamaged):
        told()


def test_a_database_of_another_program_is_told(past):
    db = sqlite3.connect(past)
    db.execute("PRAGMA application_id = 7")
    db.commit()
    db.close()
    with pytest.raises(DatabaseDamaged, match="not one of localpaged"):
        told()


def test_a_history_of_a_newer_localpaged_is_a_problem(past):
    db = sqlite3.connect(past)
    db.execute(
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) "
        "VALUES ('localpaged', 'm999_later', '')"
    )
    db.commit()
    db.close()
    fact = told()["history schema"]
    assert (fact.verdict, "m999_later" in fact.value) == (Verdict.PROBLEM, True)


def test_an_older_history_is_told_what_the_next_start_does(past):
    db = sqlite3.connect(past)
    (last,) = db.execute("SELECT max(name) FROM _sqlite_migrations").fetchone()
    db.execute("DELETE FROM _sqlite_migrations WHERE name = ?", [last])
    db.commit()
    db.close()
    fact = told()["history schema"]
    assert (fact.verdict, last in fact.value) == (Verdict.OK, True)


def test_a_check_that_takes_too_long_is_given_up_and_told(past, monkeypatch):
    monkeypatch.setattr(history_module, "CHECKING_S", -1)
    monkeypatch.setattr("localpaged.store.checkup._STEPS_BETWEEN_LOOKS", 1)
    fact = told()["history pages"]
    assert (fact.verdict, "not finished" in fact.value) == (Verdict.NOTE, True)


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_what_is_no_file_is_told_and_never_waited_for(home, kind):
    path = paths.database_file()
    path.parent.mkdir(parents=True)
    path.mkdir() if kind == "folder" else os.mkfifo(path)
    with pytest.raises(StoreError, match=kind):
        told()


def test_a_link_that_leads_nowhere_is_told(home):
    path = paths.database_file()
    path.parent.mkdir(parents=True)
    path.symlink_to(home / "gone.db")
    assert told()["history"].verdict is Verdict.PROBLEM


def test_copies_are_counted(past):
    folder = past.parent / "backups"
    folder.mkdir()
    (folder / "chats-20260101-000000-before-m002.db").write_bytes(b"x" * 10)
    (fact,) = copies_facts(past)
    assert fact.numbers == {"count": 1, "bytes": 10}


def test_who_has_the_history_open_is_told_by_process(past, tmp_path):
    status = past.stat()
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}"
    table = tmp_path / "locks"
    table.write_text(
        f"1: POSIX  ADVISORY  READ 4121 {device}:{status.st_ino} 128 128\n"
        f"2: POSIX  ADVISORY  WRITE 4121 {device}:{status.st_ino} 120 120\n"
        f"2: -> POSIX  ADVISORY  WRITE 9 {device}:{status.st_ino} 120 120\n"
        f"3: FLOCK  ADVISORY  WRITE 17 {device}:1 0 EOF\n"
        "nonsense\n"
    )
    assert holders([past, past.with_name("gone")], table=table) == [Holder(4121, True)]


def test_another_program_that_reads_is_named(past):
    reader = sqlite3.connect(past)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM chats").fetchall()
    try:
        (fact,) = users_facts(past)
        # the locks are those of this very process, which is not told of itself
        assert fact.numbers == {"pids": []}
        (shm,) = past.parent.glob("*-shm")
        assert [holder.pid for holder in holders([past, shm])] == [os.getpid()]
    finally:
        reader.close()
