"""Compares: saved with their chats, read before they are saved, outliving single chats."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localpaged.errors import NotInHistory
from localpaged.store.database import open_database, transaction
from localpaged.store.rows import Chat, Compare
from localpaged.store.store import Store
from localpaged.store.sweep import purge
from localpaged.store.writes import Write, change_chat
from testkit.builders import WAIT_S

CHATS = tuple(
    Chat(name, f"branch {name}", None, "", "", 1.0, 1.0, is_hidden=True) for name in ("b", "a", "c")
)
COMPARE = Compare("compare", "Which [b]?\x1b[0m", 5.0, ("b", "a", "c"), is_blind=True)


def test_a_compare_keeps_its_chats_in_order_and_is_read_before_it_is_saved(database_path: Path):
    store = Store.open(database_path)
    saved = store.submit(Write(new_chats=CHATS, compares=(COMPARE,)))
    assert store.compare("compare") == COMPARE
    saved.result(WAIT_S)
    assert store.compares() == [COMPARE]
    voted = replace(COMPARE, chat_ids=("c", "b"), voted_chat="c", voted_model="m", is_blind=False)
    store.submit(Write(compares=(voted,))).result(WAIT_S)
    assert store.compare("compare") == voted
    store.close()


def test_hidden_chats_are_in_no_list_until_they_are_kept(database_path: Path):
    store = Store.open(database_path)
    store.submit(Write(new_chats=CHATS, compares=(COMPARE,)))
    assert store.chats() == []
    assert store.chat("a").is_hidden
    store.submit(Write(chat_changes=(change_chat("a", is_hidden=False),))).result(WAIT_S)
    assert [chat.id for chat in store.chats()] == ["a"]
    store.close()


def test_a_chat_that_is_removed_for_good_leaves_its_compare(database_path: Path):
    store = Store.open(database_path)
    store.submit(Write(new_chats=CHATS, compares=(COMPARE,)))
    store.submit(Write(chat_changes=(change_chat("a", deleted_at=1.0),))).result(WAIT_S)
    store.close()
    db, _ = open_database(database_path)
    with transaction(db):
        purge(db, deleted_before=2.0)
    db.close()
    store = Store.open(database_path)
    assert store.compare("compare").chat_ids == ("b", "c")
    # somebody who read it before may still write it as it was
    store.submit(Write(compares=(COMPARE,))).result(WAIT_S)
    assert store.compare("compare").chat_ids == ("b", "c")
    store.close()


def test_a_compare_that_is_not_there_is_told(database_path: Path):
    store = Store.open(database_path)
    with pytest.raises(NotInHistory):
        store.compare("none")
    store.close()
