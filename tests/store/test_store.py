"""Reading: one's own writes at once, one moment at a time, on any thread."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from localpaged.errors import NotInHistory, StoreError
from localpaged.store.database import connect
from localpaged.store.rows import Chat, TurnStatus
from localpaged.store.scope import DELETED_KEPT_S
from localpaged.store.store import Store, new_id
from localpaged.store.tree import make_message
from localpaged.store.writes import Write, change_chat
from testkit.builders import WAIT_S, make_chat, make_limited_store, make_turn


def new_chat(chat_id: str, *, updated_at: float = 1.0, deleted_at: float | None = None) -> Chat:
    return Chat(chat_id, "", None, "", "", 1.0, updated_at, deleted_at)


def test_a_read_sees_every_write_before_it_saved_or_not(database_path: Path):
    store, make_room = make_limited_store(database_path, spare_pages=2)
    first = make_chat(store, texts=["saved"])
    big = make_message(first.tip_hash, "assistant", "x" * 100_000)
    done = make_turn(parent_hash=first.tip_hash, tip_hash=big.hash, status=TurnStatus.DONE)
    store.submit(
        Write(
            messages=(big,), turns=(done,), chat_changes=(change_chat("chat", tip_hash=big.hash),)
        )
    )
    store.submit(Write(new_chats=(new_chat("new", updated_at=9.0),)))
    store.submit(
        Write(chat_changes=(change_chat("new", title="named"), change_chat("?", title="x")))
    )

    conversation = store.conversation("chat")

    assert [message.text for message in conversation.messages] == ["saved", big.text]
    assert conversation.turns == [done]
    assert store.turn("turn") == done
    assert [(chat.id, chat.title) for chat in store.chats()] == [
        ("new", "named"),
        ("chat", "title"),
    ]
    make_room()
    assert store.close() is None


def test_chats_are_listed_latest_first_without_deleted_ones(store: Store):
    chats = [new_chat("old"), new_chat("new", updated_at=3.0), new_chat("gone", deleted_at=2.0)]
    store.submit(Write(new_chats=chats)).result(WAIT_S)
    assert [chat.id for chat in store.chats()] == ["new", "old"]
    assert store.chat("gone").deleted_at == 2.0


def test_a_chat_without_messages_is_an_empty_conversation(store: Store):
    make_chat(store)
    assert store.conversation("chat").messages == []
    assert store.path_to(None) == []


def test_what_is_not_there_is_said_to_be_not_there(store: Store):
    for look in (
        lambda: store.chat("nope"),
        lambda: store.turn("nope"),
        lambda: store.path_to("b2:nope"),
        lambda: store.conversation("nope"),
        lambda: store.fork("nope", at_hash="b2:nope"),
    ):
        with pytest.raises(NotInHistory, match="nope"):
            look()


def test_a_fork_is_one_chat_row_and_no_message(store: Store):
    chat = make_chat(store, texts=["q", "a", "q2"])
    at_hash = store.conversation("chat").messages[1].hash

    fork = store.fork("chat", at_hash=at_hash)
    store.writer.flush()

    assert fork.forked_from == "chat"
    assert [message.text for message in store.conversation(fork.id).messages] == ["q", "a"]
    assert [message.text for message in store.conversation("chat").messages] == ["q", "a", "q2"]
    db = connect(store.path, is_reader=True)
    assert db.table("messages").count == 3
    assert db.table("chats").count == 2
    assert chat.forked_from is None


def test_a_fork_of_what_is_not_there_makes_no_chat(store: Store):
    make_chat(store)
    with pytest.raises(NotInHistory):
        store.fork("chat", at_hash="b2:nope")
    assert len(store.chats()) == 1


def test_a_shared_answer_is_shown_with_the_chats_own_turn(store: Store):
    chat = make_chat(store, texts=["q", "a"])
    assert chat.tip_hash is not None
    fork = store.fork("chat", at_hash=chat.tip_hash)
    question = store.conversation("chat").messages[0]
    turns = [
        make_turn(
            turn_id=f"of {chat_id}",
            chat_id=chat_id,
            parent_hash=question.hash,
            tip_hash=chat.tip_hash,
            status=TurnStatus.DONE,
        )
        for chat_id in ("chat", fork.id)
    ]
    store.submit(Write(turns=turns))
    for chat_id in ("chat", fork.id):
        assert store.conversation(chat_id).turns[-1].id == f"of {chat_id}"


def test_open_turns_of_other_chats_are_not_part_of_a_conversation(store: Store):
    chat = make_chat(store, texts=["q"])
    assert chat.tip_hash is not None
    fork = store.fork("chat", at_hash=chat.tip_hash)
    store.submit(Write(turns=(make_turn(parent_hash=chat.tip_hash),)))
    assert [turn.id for turn in store.conversation("chat").turns] == ["turn"]
    assert store.conversation(fork.id).turns == []


def test_every_thread_reads_through_its_own_connection(store: Store):
    make_chat(store, texts=["q"])
    seen: list[int] = []
    threads = [threading.Thread(target=lambda: seen.append(len(store.chats()))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    assert seen == [1] * 8


def test_a_reader_cannot_write(store: Store):
    db = connect(store.path, is_reader=True)
    with pytest.raises(Exception, match="readonly"):
        db.execute("DELETE FROM chats")


def test_reads_never_miss_a_write_while_it_is_being_saved(store: Store):
    """The tip moves from the queue to the disk all the time; a reader must never see it go back."""
    make_chat(store)
    tips = [make_message(None, "user", str(number)).hash for number in range(100)]
    seen: list[int] = []
    is_done = threading.Event()

    def read() -> None:
        while not is_done.is_set():
            title = store.chat("chat").title
            seen.append(int(title) if title.isdigit() else -1)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(len(tips)):
        store.submit(Write(chat_changes=(change_chat("chat", title=str(number)),)))
        assert store.chat("chat").title == str(number)
    store.writer.flush()
    is_done.set()
    reader.join(WAIT_S)
    assert seen == sorted(seen)
    assert store.chat("chat").title == str(len(tips) - 1)


@pytest.mark.parametrize("bad", ["hello \ud83d", "a\0b", "\ud83d\ude00 pair"])
def test_unstorable_text_is_repaired_everywhere_and_later_writes_work(store: Store, bad: str):
    message = make_message(None, "user", bad)
    changes = (change_chat("chat", title=bad, draft=bad, tip_hash=message.hash),)
    make_chat(store)
    store.submit(Write(messages=(message,), chat_changes=changes)).result(WAIT_S)
    after = make_message(message.hash, "assistant", "fine")
    store.submit(Write(messages=(after,))).result(WAIT_S)
    assert [m.text for m in store.path_to(after.hash)] == [message.text, "fine"]
    assert store.chat("chat").title == store.chat("chat").draft == message.text
    assert store.verify() == []


def test_a_message_of_five_megabytes_is_kept(store: Store):
    text = "größe " * 800_000
    chat = make_chat(store, texts=[text])
    assert store.conversation(chat.id).messages[0].text == text
    assert store.verify() == []


def test_a_broken_byte_in_a_row_does_not_make_a_chat_unreadable(store: Store):
    make_chat(store, texts=["q", "a"])
    other = connect(store.path)
    other.execute("UPDATE parts SET text = CAST(x'61ff62' AS TEXT) WHERE text = 'a'")
    assert [m.text for m in store.conversation("chat").messages] == ["q", "a\ufffdb"]
    assert len(store.verify()) == 1


def test_long_deleted_chats_are_purged_at_the_next_start(database_path: Path):
    store = Store.open(database_path)
    make_chat(store, texts=["q", "a"])
    make_chat(store, chat_id="fresh", texts=["q"])
    longest_ago = change_chat("chat", deleted_at=DELETED_KEPT_S)
    store.submit(Write(chat_changes=(longest_ago, change_chat("fresh", deleted_at=4e9))))
    store.close()

    store = Store.open(database_path)
    store.writer.flush()

    db = connect(database_path, is_reader=True)
    assert [row["id"] for row in db.table("chats").rows] == ["fresh"]
    assert db.table("messages").count == 1
    store.close()


def test_ids_sort_by_time_and_do_not_repeat():
    ids = [new_id() for _ in range(1_000)]
    assert len(set(ids)) == 1_000
    assert [i[:10] for i in ids] == sorted(i[:10] for i in ids)


def test_a_closed_history_says_so(database_path: Path):
    store = Store.open(database_path)
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.chats()
