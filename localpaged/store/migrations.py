"""The schema, one numbered step after another; each step and its record are one transaction.

messages, parts   the content-addressed tree: a message is named by the hash of its way to the root
chats             named tips of the tree; a fork is one more row here
turns             one question and its answer: status, sampling, cost
partials          the text so far of open answers
prompts           what the engine read for a turn, as a difference to an earlier turn's
compares          a prompt that several chats answer side by side, `compare_branches` in order
runs              a row for every running process; `lock_file` tells whether it still lives
run_summaries     what each run came to, a row for each model in it
search_*          the index of the search (`search_index.py`)
"""

from __future__ import annotations

from sqlite_utils import Database, Migrations

from localpaged.store.search_index import create_index

APPLICATION_ID = 0x6C706764  # "lpgd": tells our files from other programs' databases

migrations = Migrations("localpaged")


@migrations()
def m001_initial(db: Database) -> None:
    """The message tree, chats, turns, checkpoints and runs."""
    db.table("messages").create(
        {"hash": str, "parent_hash": str, "role": str, "created_at": float},
        pk="hash",
        not_null={"hash", "role", "created_at"},
        foreign_keys=[("parent_hash", "messages", "hash")],
    )
    db.table("parts").create(
        {"message_hash": str, "position": int, "type": str, "text": str, "payload": str},
        pk=("message_hash", "position"),
        not_null={"type"},
        foreign_keys=[("message_hash", "messages", "hash")],
    )
    db.table("chats").create(
        {
            "id": str,
            "title": str,
            "tip_hash": str,
            "forked_from": str,
            "model": str,
            "draft": str,
            "created_at": float,
            "updated_at": float,
            "deleted_at": float,
        },
        pk="id",
        not_null={"id", "title", "model", "draft", "created_at", "updated_at"},
        foreign_keys=[("tip_hash", "messages", "hash")],
    )
    db.table("runs").create(
        {"id": str, "pid": int, "lock_file": str, "started_at": float},
        pk="id",
        not_null={"id", "pid", "lock_file", "started_at"},
    )
    _create_turns(db)
    db.table("partials").create(
        {"turn_id": str, "text": str, "token_count": int, "updated_at": float},
        pk="turn_id",
        not_null={"turn_id", "text", "token_count", "updated_at"},
        foreign_keys=[("turn_id", "turns", "id")],
    )
    for table, columns in (
        ("messages", ["parent_hash"]),
        ("chats", ["tip_hash"]),
        ("chats", ["updated_at"]),
        ("turns", ["chat_id", "created_at"]),
        ("turns", ["parent_hash"]),
        ("turns", ["tip_hash"]),
        ("turns", ["run_id"]),
    ):
        db.table(table).create_index(columns)
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


@migrations()
def m002_prompt_tokens(db: Database) -> None:
    """Whose token ids an answer has, what was sent to the engine, what of it was cached."""
    turns = db.table("turns")
    turns.add_column("model_fingerprint", str)
    turns.add_column("cache_report", str)
    db.table("partials").add_column("token_ids", bytes)
    db.table("prompts").create(
        {
            "turn_id": str,
            "base_turn_id": str,
            "num_shared": int,
            "tail_ids": bytes,
            "num_computed": int,
            "namespace": str,
            "run_id": str,  # may be gone: it only tells that the memory is gone, too
        },
        pk="turn_id",
        not_null={"turn_id", "num_shared", "tail_ids", "num_computed", "namespace", "run_id"},
        foreign_keys=[("turn_id", "turns", "id")],
    )


@migrations()
def m003_chat_settings(db: Database) -> None:
    """What belongs to one chat alone: sampling, system text, view, archived, unread."""
    chats = db.table("chats")
    chats.add_column("options", str, not_null_default="{}")
    chats.add_column("system", str)
    chats.add_column("archived_at", float)
    chats.add_column("is_unread", int, not_null_default=0)
    chats.add_column("view_hash", str)  # no foreign key: a message that is gone hides nothing


@migrations()
def m004_compares(db: Database) -> None:
    """Prompts that several chats answer side by side. A chat's model is the one chosen for it."""
    # It was the model that answered last, which the turns tell; "" is the default of each run.
    db.execute("UPDATE chats SET model = ''")
    db.table("chats").add_column("is_hidden", int, not_null_default=0)
    db.table("compares").create(
        {
            "id": str,
            "prompt": str,
            "from_chat": str,
            "parent_hash": str,
            "is_blind": int,
            "voted_chat": str,
            "voted_model": str,
            "created_at": float,
        },
        pk="id",
        not_null={"id", "prompt", "is_blind", "created_at"},
    )
    # Not sqlite-utils' own: a chat that is removed for good takes its place here along.
    db.execute(
        "CREATE TABLE compare_branches ("
        " compare_id TEXT NOT NULL REFERENCES compares(id) ON DELETE CASCADE,"
        " chat_id TEXT NOT NULL REFERENCES chats(id) ON DELETE CASCADE,"
        " position INTEGER NOT NULL,"
        " PRIMARY KEY (compare_id, chat_id))"
    )
    db.table("compare_branches").create_index(["chat_id"])


@migrations()
def m005_search(db: Database) -> None:
    """What a search looks into; texts from before are indexed later, while the program runs."""
    create_index(db)


@migrations()
def m006_thoughts(db: Database) -> None:
    """Where an answer's reasoning lies in its text, and how long it took."""
    db.table("turns").add_column("thought", str)


@migrations()
def m007_fork_point(db: Database) -> None:
    """Where a chat began: that way belongs to it, whatever its tip moves to."""
    db.table("chats").add_column("base_hash", str)


@migrations()
def m008_run_summaries(db: Database) -> None:
    """What each run of the program came to."""
    texts, whole, real = ("run_id", "model", "command", "version"), int, float
    columns: dict[str, type] = dict.fromkeys(texts, str)
    columns |= {"pid": whole, "started_at": real, "last_at": real, "is_ended": whole}
    columns |= {"requests": whole, "steps": whole, "busy_s": real}
    counts = ("prompt_tokens", "cached_prompt_tokens", "prefilled_tokens", "generated_tokens")
    blocks = ("peak_held_blocks", "max_blocks", "bytes_per_block")
    rates = ("peak_prefill_tokens_per_s", "peak_decode_tokens_per_s")
    columns |= dict.fromkeys((*counts, *blocks), whole) | dict.fromkeys(rates, real)
    medians = ("ttft_p50_ms", "inter_token_p50_ms")
    moves = ("block_copies", "evicted_blocks", "swapped_in_blocks", "swapped_out_blocks")
    columns |= dict.fromkeys(medians, real) | dict.fromkeys((*moves, "preemptions"), whole)
    # no foreign key: a run's own row goes when it ends
    db.table("run_summaries").create(
        columns, pk=("run_id", "model"), not_null=set(columns) - set(medians)
    )
    db.table("run_summaries").create_index(["started_at"])


def _create_turns(db: Database) -> None:
    db.table("turns").create(
        {
            "id": str,
            "chat_id": str,
            "run_id": str,  # the process that still has to finish it; NULL when nobody has
            "parent_hash": str,
            "tip_hash": str,
            "question": str,
            "status": str,
            "model": str,
            "options": str,
            "finish_reason": str,
            "error": str,
            "seed": int,
            "prompt_tokens": int,
            "cached_tokens": int,
            "completion_tokens": int,
            "ttft_s": float,
            "decode_s": float,
            "token_ids": bytes,  # of the answer, int32, little-endian
            "created_at": float,
            "finished_at": float,
        },
        pk="id",
        not_null={"id", "chat_id", "status", "model", "options", "created_at"},
        foreign_keys=[
            ("chat_id", "chats", "id"),
            ("run_id", "runs", "id"),
            ("parent_hash", "messages", "hash"),
            ("tip_hash", "messages", "hash"),
        ],
    )
