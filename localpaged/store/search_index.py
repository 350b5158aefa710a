"""The index of a search: folded texts of users and answers, by word and by three characters.

search_texts      one row a message; `question` or `answer` has its folded text, the other is empty
search_words      FTS5 by words, over search_texts
search_trigrams   FTS5 by three characters: what has no spaces, and parts of words
search_pending    messages that are not indexed yet: those from before there was an index

A message is indexed in the transaction that writes it, and leaves the index with its row, by
triggers. System texts and what a model wrote while it thought are not searched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlite_utils import Database

from localpaged.store.fold import fold

SEARCHED_ROLES = ("user", "assistant")
# one transaction of the background indexing: a sent message waits behind it
BATCH_MESSAGES = 64
BATCH_CHARS = 64_000

_NAMES = "think|thinking|thought|reasoning|seed:think"
_BEGIN = re.compile(rf"\s*(?:<(?:{_NAMES})>|\[THINK\]|◁think▷)")
_END = re.compile(rf"</(?:{_NAMES})>|\[/THINK\]|◁/think▷")

_TABLES = (
    """
    CREATE TABLE search_texts (
        id INTEGER PRIMARY KEY,
        message_hash TEXT NOT NULL UNIQUE,
        question TEXT NOT NULL,
        answer TEXT NOT NULL
    )
    """,
    """
    CREATE VIRTUAL TABLE search_words USING fts5(
        question, answer, content='search_texts', content_rowid='id',
        tokenize='unicode61 remove_diacritics 0'
    )
    """,
    # Where in a text three characters stand would take most of the room: what is found is
    # compared with the text anyway.
    """
    CREATE VIRTUAL TABLE search_trigrams USING fts5(
        question, answer, content='search_texts', content_rowid='id',
        tokenize='trigram case_sensitive 1', detail='none'
    )
    """,
    """
    CREATE TRIGGER search_texts_enter AFTER INSERT ON search_texts BEGIN
        INSERT INTO search_words (rowid, question, answer)
        VALUES (NEW.id, NEW.question, NEW.answer);
        INSERT INTO search_trigrams (rowid, question, answer)
        VALUES (NEW.id, NEW.question, NEW.answer);
    END
    """,
    """
    CREATE TRIGGER search_texts_leave AFTER DELETE ON search_texts BEGIN
        INSERT INTO search_words (search_words, rowid, question, answer)
        VALUES ('delete', OLD.id, OLD.question, OLD.answer);
        INSERT INTO search_trigrams (search_trigrams, rowid, question, answer)
        VALUES ('delete', OLD.id, OLD.question, OLD.answer);
    END
    """,
    "CREATE TABLE search_pending (id INTEGER PRIMARY KEY, message_hash TEXT NOT NULL UNIQUE)",
    """
    CREATE TRIGGER messages_leave_search AFTER DELETE ON messages BEGIN
        DELETE FROM search_texts WHERE message_hash = OLD.hash;
        DELETE FROM search_pending WHERE message_hash = OLD.hash;
    END
    """,
    """
    INSERT INTO search_pending (message_hash)
    SELECT hash FROM messages WHERE role IN ('user', 'assistant') ORDER BY created_at, rowid
    """,
)

# the newest first: they are looked for most
_PENDING = """
SELECT search_pending.id, messages.hash, messages.role, group_concat(parts.text, '')
FROM (SELECT * FROM search_pending ORDER BY id DESC LIMIT ?) AS search_pending
JOIN messages ON messages.hash = search_pending.message_hash
LEFT JOIN parts ON parts.message_hash = messages.hash AND parts.type = 'text'
GROUP BY search_pending.id ORDER BY search_pending.id DESC
"""


def create_index(db: Database) -> None:
    """Make the tables and note every message that is there; nothing is indexed yet."""
    for statement in _TABLES:
        db.execute(statement)


def searched_text(role: str, text: str) -> str:
    """Return what of a message a search looks at, before it is folded."""
    return text[_num_thought(text) :] if role == "assistant" else text


def index_message(db: Database, message_hash: str, role: str, text: str) -> None:
    """Let a message be found; one that is in the index already stays as it is."""
    if role not in SEARCHED_ROLES:
        return
    folded = fold(searched_text(role, text))
    is_question = role == "user"
    db.execute(
        "INSERT OR IGNORE INTO search_texts (message_hash, question, answer) VALUES (?, ?, ?)",
        [message_hash, folded if is_question else "", "" if is_question else folded],
    )


def num_pending(db: Database) -> int:
    """How many messages are not indexed yet."""
    (number,) = db.execute("SELECT count(*) FROM search_pending").fetchone()
    return int(number)


@dataclass(slots=True, eq=False)
class IndexPending:
    """Index some of the messages from before there was an index.

    `has_more` is set by `apply`, on the writer's thread: whether some are left.
    """

    has_more: bool = False

    def apply(self, db: Database, *, run_id: str) -> None:
        """Index one batch, the newest first."""
        num_chars = num_done = 0
        rows = db.execute(_PENDING, [BATCH_MESSAGES]).fetchall()
        for pending_id, message_hash, role, text in rows:
            db.execute("DELETE FROM search_pending WHERE id = ?", [pending_id])
            index_message(db, message_hash, role, text or "")
            num_done += 1
            num_chars += len(text or "")
            if num_chars >= BATCH_CHARS:
                break
        self.has_more = num_done < len(rows) or len(rows) == BATCH_MESSAGES


def _num_thought(text: str) -> int:
    """How many characters at an answer's beginning are thoughts, their marks included.

    Where the prompt opened the thought, the answer has the closing mark alone, beginning a line.
    """
    is_begun = _BEGIN.match(text) is not None
    end = _END.search(text)
    if end is None:
        return len(text) if is_begun else 0
    is_at_line = text[: end.start()].rstrip(" \t").endswith("\n")
    is_opened_by_prompt = is_at_line and _BEGIN.search(text, 0, end.start()) is None
    return end.end() if is_begun or is_opened_by_prompt else 0
