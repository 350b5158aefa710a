"""A history from before there was an index is searched soon, and opens as fast as ever."""

from __future__ import annotations

import time
from pathlib import Path

from localpaged.store import search_index
from localpaged.store.database import connect
from localpaged.store.search_index import IndexPending
from localpaged.store.store import Store
from localpaged.store.tree import make_message
from localpaged.store.writes import Write
from testkit.builders import make_chat, make_limited_store

NUM_CHATS = 6


def write_old_history(path: Path) -> None:
    """A history without an index: each chat has a question with its number and an answer."""
    store = Store.open(path)
    for number in range(NUM_CHATS):
        make_chat(store, chat_id=f"c{number}", texts=[f"needle {number}", "<think>x</think>hay"])
    store.close()
    db = connect(path)
    for table in ("search_words", "search_trigrams", "search_texts", "search_pending"):
        db.execute(f"DROP TABLE {table}")
    db.execute("DROP TRIGGER messages_leave_search")
    db.execute("DELETE FROM _sqlite_migrations WHERE name = 'm005_search'")
    db.commit()
    db.close()


def wait_indexed(store: Store) -> None:
    deadline_s = time.monotonic() + 10
    while store.search("x").num_unindexed:
        assert time.monotonic() < deadline_s
        store.writer.flush()


def test_old_messages_are_indexed_in_the_background(database_path: Path, monkeypatch):
    write_old_history(database_path)
    monkeypatch.setattr(search_index, "BATCH_MESSAGES", 5)
    store = Store.open(database_path)
    wait_indexed(store)
    assert {hit.chat.id for hit in store.search("needle").hits} == {
        f"c{number}" for number in range(NUM_CHATS)
    }
    assert store.search("hay").hits[0].snippet.text == "hay"
    store.close()


def test_the_newest_are_indexed_first_and_what_is_left_is_told(database_path: Path, monkeypatch):
    write_old_history(database_path)
    monkeypatch.setattr(search_index, "BATCH_MESSAGES", 3)
    monkeypatch.setattr(Store, "_index_older", lambda store: None)
    store = Store.open(database_path)
    assert store.search("needle").num_unindexed == 2 * NUM_CHATS
    batch = IndexPending()
    store.submit(batch).result(10)
    assert batch.has_more
    result = store.search("needle")
    assert result.num_unindexed == 2 * NUM_CHATS - 3
    assert f"c{NUM_CHATS - 1}" in {hit.chat.id for hit in result.hits}
    store.close()


def test_indexing_goes_on_at_the_next_start(database_path: Path, monkeypatch):
    write_old_history(database_path)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(Store, "_index_older", lambda store: None)
        Store.open(database_path).close()
    store = Store.open(database_path)
    wait_indexed(store)
    assert len(store.search("needle").hits) == NUM_CHATS
    store.close()


def test_a_long_text_ends_a_batch(database_path: Path, monkeypatch):
    write_old_history(database_path)
    monkeypatch.setattr(search_index, "BATCH_CHARS", 1)
    monkeypatch.setattr(Store, "_index_older", lambda store: None)
    store = Store.open(database_path)
    batch = IndexPending()
    store.submit(batch).result(10)
    assert batch.has_more
    assert store.search("x").num_unindexed == 2 * NUM_CHATS - 1
    store.close()


def test_on_a_full_disk_message_and_index_wait_together(tmp_path: Path):
    store, make_room = make_limited_store(tmp_path / "chats.db", spare_pages=0)
    text = "needle " + "hay " * 20_000
    message = make_message(None, "user", text)
    saved = store.submit(Write(messages=(message,)))
    deadline_s = time.monotonic() + 10
    while store.writer.failure is None:
        assert time.monotonic() < deadline_s
    make_room()
    saved.result(10)
    counted = store._reader().execute("SELECT count(*) FROM search_texts").fetchone()
    assert counted == (1,)
    store.close()
