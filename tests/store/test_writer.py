"""The writing thread: order, durability, checkpoints, and a disk that refuses."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
from sqlite_utils import Database

from localpaged.errors import DiskFull, StoreError
from localpaged.store.database import connect, open_database
from localpaged.store.locks import RunLock
from localpaged.store.recovery import start_run
from localpaged.store.rows import Chat, TurnStatus
from localpaged.store.store import Store
from localpaged.store.tree import make_message
from localpaged.store.writer import StoreWriter
from localpaged.store.writes import Write, change_chat
from testkit.builders import WAIT_S, make_chat, make_limited_store, make_turn

BIG = "x" * 100_000


def on_disk(path: Path, sql: str) -> list[tuple[object, ...]]:
    db = connect(path, is_reader=True)
    try:
        return list(db.execute(sql).fetchall())
    finally:
        db.close()


def wait_until(is_true: Callable[[], bool], *, timeout_s: float = WAIT_S) -> float:
    """Poll until true; return how long it took."""
    started = time.monotonic()
    while not is_true():
        assert time.monotonic() - started < timeout_s, "waited in vain"
        time.sleep(0.005)
    return time.monotonic() - started


def open_turn(store: Store) -> None:
    chat = make_chat(store, texts=["question"])
    store.submit(Write(turns=(make_turn(parent_hash=chat.tip_hash),))).result(WAIT_S)


def title(text: str) -> Write:
    return Write(chat_changes=(change_chat("chat", title=text),))


class Watch:
    """Counts what the writer tells about failing."""

    def __init__(self, store: Store) -> None:
        self.failures: list[StoreError] = []
        self.recovered = threading.Event()
        self.failed = threading.Event()
        store.writer.on_failing = self._failing
        store.writer.on_recovered = self.recovered.set

    def _failing(self, error: StoreError) -> None:
        self.failures.append(error)
        self.failed.set()


def test_a_done_future_means_that_others_see_the_rows(store: Store):
    make_chat(store, texts=["question", "answer"])
    assert on_disk(store.path, "SELECT count(*) FROM messages") == [(2,)]


def test_operations_are_applied_in_the_order_they_came(store: Store):
    make_chat(store)
    done = [store.submit(title(str(number))) for number in range(50)]
    done[-1].result(WAIT_S)
    assert all(future.done() for future in done)
    assert on_disk(store.path, "SELECT title FROM chats") == [("49",)]


def test_text_of_an_open_answer_is_on_the_disk_within_a_second(store: Store):
    open_turn(store)
    store.writer.append_text("turn", "Hello", 1)
    took_s = wait_until(lambda: store.turn("turn").partial_text == "Hello")
    assert took_s < 1.0
    assert on_disk(store.path, "SELECT text, token_count FROM partials") == [("Hello", 1)]


def test_many_pieces_become_one_save(store: Store):
    open_turn(store)
    statements: list[str] = []
    store.writer._db.conn.set_trace_callback(statements.append)
    for number in range(1_000):
        store.writer.append_text("turn", "ab", number + 1)
    assert store.writer.flush()
    store.writer._db.conn.set_trace_callback(None)
    saves = [statement for statement in statements if "INTO partials" in statement]
    assert len(saves) <= 2  # one, and one more if half a second passed meanwhile
    assert on_disk(store.path, "SELECT text, token_count FROM partials") == [("ab" * 1_000, 1_000)]


def test_a_continued_answer_keeps_what_it_began_with(store: Store):
    open_turn(store)
    turn = replace(store.turn("turn"), partial_text="begun ", completion_tokens=3)
    store.submit(Write(turns=(replace(turn, id="again"),)))
    store.writer.append_text("again", "and gone on", 4)
    store.writer.flush()
    assert on_disk(store.path, "SELECT * FROM partials")[0][:3] == ("again", "begun and gone on", 4)


def test_the_end_of_a_turn_removes_its_checkpoint_and_a_late_piece_changes_nothing(store: Store):
    open_turn(store)
    turn = store.turn("turn")
    store.writer.append_text("turn", "Hel", 1)
    store.writer.flush()
    answer = make_message(turn.parent_hash, "assistant", "Hello")
    done = replace(turn, status=TurnStatus.DONE, tip_hash=answer.hash)
    store.submit(Write(messages=(answer,), turns=(done,)))
    store.writer.append_text("turn", "lo", 2)
    store.writer.append_text("nobody", "knows this turn", 1)
    assert store.writer.flush()
    assert on_disk(store.path, "SELECT count(*) FROM partials") == [(0,)]
    assert store.path_to(answer.hash)[-1].text == "Hello"


def test_pieces_that_come_before_their_turn_is_saved_are_not_lost(store: Store):
    chat = make_chat(store, texts=["question"])
    store.submit(Write(turns=(make_turn(parent_hash=chat.tip_hash),)))
    store.writer.append_text("turn", "early", 1)
    store.writer.flush()
    wait_until(lambda: store.turn("turn").partial_text == "early")


def test_of_drafts_the_newest_is_saved_soon(store: Store):
    make_chat(store)
    for text in ("d", "dr", "dra"):
        store.writer.submit_soon(
            "draft:chat", Write(chat_changes=(change_chat("chat", draft=text),))
        )
    assert store.chat("chat").draft == "dra"
    wait_until(lambda: on_disk(store.path, "SELECT draft FROM chats") == [("dra",)])


def test_a_draft_does_not_come_back_over_a_later_write(store: Store):
    make_chat(store)
    draft = Write(chat_changes=(change_chat("chat", draft="typed"),))
    store.writer.submit_soon("draft:chat", draft)
    store.submit(Write(chat_changes=(change_chat("chat", draft=""),)))
    store.writer.flush()
    assert on_disk(store.path, "SELECT draft FROM chats") == [("",)]


def test_a_full_disk_is_told_once_and_everything_is_saved_when_there_is_room(database_path: Path):
    store, make_room = make_limited_store(database_path, spare_pages=4)
    open_turn(store)
    watch = Watch(store)
    big = make_message(None, "user", BIG)

    saved = store.submit(Write(messages=(big,)))
    assert watch.failed.wait(WAIT_S)
    store.submit(title("while full"))
    store.writer.append_text("turn", "partial", 1)

    assert isinstance(watch.failures[0], DiskFull)
    assert isinstance(store.writer.failure, DiskFull)
    assert not saved.done()
    assert store.chat("chat").title == "while full"
    assert [message.text for message in store.path_to(big.hash)] == [BIG]
    assert not store.writer.flush(timeout_s=0.05)
    assert on_disk(database_path, "SELECT title FROM chats") == [("title",)]

    make_room()
    saved.result(WAIT_S)
    assert watch.recovered.wait(WAIT_S)
    assert store.writer.flush()
    assert len(watch.failures) == 1
    assert store.writer.failure is None
    assert on_disk(database_path, "SELECT title FROM chats") == [("while full",)]
    assert on_disk(database_path, "SELECT text FROM partials") == [("partial",)]
    assert store.close() is None


@pytest.mark.parametrize("spare_pages", [0, 1])
def test_a_disk_that_is_full_from_the_first_write_on_loses_nothing(
    database_path: Path, spare_pages: int
):
    store, make_room = make_limited_store(database_path, spare_pages=spare_pages)
    watch = Watch(store)
    chat = Chat("chat", "title", None, "fake-model", BIG, 1.0, 1.0)
    saved = store.submit(Write(new_chats=(chat,)))
    assert watch.failed.wait(WAIT_S)
    assert store.chat("chat") == chat
    make_room()
    saved.result(WAIT_S)
    assert on_disk(database_path, "SELECT title, draft FROM chats") == [("title", BIG)]
    assert store.close() is None


def test_a_checkpoint_that_does_not_fit_is_tried_again(database_path: Path):
    store, make_room = make_limited_store(database_path, spare_pages=4)
    open_turn(store)
    watch = Watch(store)
    store.writer.append_text("turn", BIG, 1)
    assert watch.failed.wait(WAIT_S)
    make_room()
    assert watch.recovered.wait(WAIT_S)
    assert on_disk(database_path, "SELECT length(text) FROM partials") == [(len(BIG),)]
    assert len(watch.failures) == 1
    store.close()


def test_closing_on_a_full_disk_is_clean_and_says_what_happened(database_path: Path):
    store, _ = make_limited_store(database_path, spare_pages=4)
    make_chat(store, texts=["kept"])
    saved = store.submit(Write(messages=(make_message(None, "user", BIG),)))
    failure = store.close()
    assert isinstance(failure, DiskFull)
    assert isinstance(saved.exception(WAIT_S), DiskFull)
    reopened = Store.open(database_path)
    assert [message.text for message in reopened.conversation("chat").messages] == ["kept"]
    reopened.close()


def test_a_write_that_can_never_succeed_does_not_stop_later_ones(store: Store):
    make_chat(store)
    watch = Watch(store)
    orphan = store.submit(Write(turns=(make_turn(chat_id="no such chat"),)))
    after = store.submit(title("after"))
    after.result(WAIT_S)
    assert isinstance(orphan.exception(WAIT_S), StoreError)
    assert len(watch.failures) == 1
    assert watch.recovered.is_set()
    assert store.close() is None


def test_a_checkpoint_that_can_never_succeed_does_not_stop_later_writes(store: Store):
    open_turn(store)
    watch = Watch(store)
    other = connect(store.path)
    other.execute("PRAGMA foreign_keys = OFF")
    other.execute("DELETE FROM turns")
    store.writer.append_text("turn", "orphaned", 1)
    assert watch.failed.wait(WAIT_S)
    store.submit(title("after")).result(WAIT_S)
    assert watch.recovered.is_set()


def test_a_locked_database_is_told_and_tried_again(database_path: Path):
    store = Store.open(database_path)
    make_chat(store)
    store.writer.flush()
    store.writer._db.execute("PRAGMA busy_timeout = 10")
    watch = Watch(store)
    other = connect(database_path)
    other.execute("BEGIN IMMEDIATE")
    saved = store.submit(title("waits"))
    assert watch.failed.wait(WAIT_S)
    assert "locked by another program" in watch.failures[0].message
    other.rollback()
    saved.result(WAIT_S)
    assert watch.recovered.wait(WAIT_S)
    store.close()


def test_closing_saves_everything_that_was_left(database_path: Path):
    store = Store.open(database_path)
    open_turn(store)
    store.writer.append_text("turn", "text", 1)
    store.writer.submit_soon("draft:chat", Write(chat_changes=(change_chat("chat", draft="d"),)))
    for number in range(20):
        store.submit(title(str(number)))
    assert store.close() is None
    assert on_disk(database_path, "SELECT title, draft FROM chats") == [("19", "d")]
    assert on_disk(database_path, "SELECT text FROM partials") == [("text",)]


def test_after_closing_nothing_is_taken(database_path: Path):
    store = Store.open(database_path)
    make_chat(store)
    store.close()
    late = store.submit(title("late"))
    store.writer.submit_soon("draft:chat", title("later still"))
    assert isinstance(late.exception(WAIT_S), StoreError)
    assert store.close() is None
    assert on_disk(database_path, "SELECT title FROM chats") == [("title",)]


def test_the_caller_does_not_wait_for_a_slow_disk(database_path: Path):
    db, path = open_database(database_path)
    start_run(db, RunLock("run"), run_id="run", pid=1)
    writer = StoreWriter(db, path, run_id="run")
    may_go_on = threading.Event()

    class Slow:
        def apply(self, db: Database, *, run_id: str) -> None:
            assert may_go_on.wait(WAIT_S)

    started = time.monotonic()
    slow = writer.submit(Slow())
    futures: list[Future[None]] = [writer.submit(Write()) for _ in range(1_000)]
    for number in range(1_000):
        writer.append_text("turn", "text", number)
    assert time.monotonic() - started < 1.0
    assert not slow.done()
    may_go_on.set()
    futures[-1].result(WAIT_S)
    assert writer.close() is None


@pytest.mark.parametrize("broken", [OverflowError("too big"), sqlite3.ProgrammingError("bug")])
def test_a_bug_in_a_write_does_not_end_the_thread(store: Store, broken: Exception):
    class Broken:
        def apply(self, db: Database, *, run_id: str) -> None:
            raise broken

    failed = store.submit(Broken())
    assert "could not be saved" in str(failed.exception(WAIT_S))
    store.submit(Write()).result(WAIT_S)


def test_a_disk_that_stays_full_is_told_once(database_path: Path):
    db, path = open_database(database_path)
    start_run(db, RunLock("run"), run_id="run", pid=1)
    writer = StoreWriter(db, path, run_id="run", retry_interval_s=0.01)
    failures: list[StoreError] = []
    attempts: list[str] = []
    writer.on_failing = failures.append
    (num_pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {num_pages}")
    db.conn.set_trace_callback(attempts.append)
    saved = writer.submit(Write(messages=(make_message(None, "user", BIG),)))
    wait_until(lambda: attempts.count("BEGIN IMMEDIATE") >= 3)
    assert len(failures) == 1
    assert isinstance(writer.close(), DiskFull)
    assert isinstance(saved.exception(WAIT_S), DiskFull)


def test_flushing_waits_for_checkpoints_that_do_not_fit(database_path: Path):
    store, make_room = make_limited_store(database_path, spare_pages=4)
    open_turn(store)
    store.writer.append_text("turn", BIG, 1)
    assert not store.writer.flush(timeout_s=0.05)
    make_room()
    assert store.writer.flush()
    assert on_disk(database_path, "SELECT length(text) FROM partials") == [(len(BIG),)]
    store.close()


def test_what_is_queued_cannot_be_cancelled(store: Store):
    make_chat(store)
    saved = store.submit(title("certain"))
    assert not saved.cancel()
    saved.result(WAIT_S)
    assert store.chat("chat").title == "certain"


def test_closing_goes_on_after_a_write_that_can_never_succeed(database_path: Path):
    store = Store.open(database_path)
    make_chat(store)
    may_go_on = threading.Event()

    class Slow:
        def apply(self, db: Database, *, run_id: str) -> None:
            assert may_go_on.wait(WAIT_S)

    store.submit(Slow())
    store.submit(Write(turns=(make_turn(chat_id="no such chat"),)))
    store.submit(title("last"))
    closing = threading.Thread(target=store.close)
    closing.start()
    may_go_on.set()
    closing.join(WAIT_S)
    assert on_disk(database_path, "SELECT title FROM chats") == [("last",)]
