"""What the engine was given to read, turn by turn; each prompt as its difference to an earlier one.

A chat's next prompt begins with the last one and its answer, so that a turn costs its own tokens
and not those of the whole chat. Prompts refer to others of the same chat only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields

from sqlite_utils import Database

from localpaged.store.rows import SentPrompt, Turn
from localpaged.store.token_ids import ID_BYTES

_COLUMNS = ", ".join(f"prompts.{field.name}" for field in fields(SentPrompt))
_OF_A_CHAT = f"""
SELECT {_COLUMNS} FROM prompts JOIN turns ON turns.id = prompts.turn_id WHERE turns.chat_id = ?
"""


def put_prompts(db: Database, prompts: Iterable[SentPrompt]) -> None:
    """Insert prompts, or replace what they were."""
    db.table("prompts").upsert_all((asdict(prompt) for prompt in prompts), pk="turn_id")


def select_prompts(db: Database, chat_id: str) -> dict[str, SentPrompt]:
    """Return the prompts of a chat by their turns."""
    return {str(row["turn_id"]): SentPrompt(**row) for row in db.query(_OF_A_CHAT, [chat_id])}


def sequence_of(
    turn_id: str, prompts: Mapping[str, SentPrompt], turns: Mapping[str, Turn]
) -> bytes | None:
    """Put a turn's prompt and the ids of its answer together; None when a part is missing."""
    chain: list[SentPrompt] = []
    below: str | None = turn_id
    while below is not None:
        prompt = prompts.get(below)
        if prompt is None or below not in turns or len(chain) > len(prompts):
            return None
        chain.append(prompt)
        below = prompt.base_turn_id
    sequence = b""
    for prompt in reversed(chain):
        num_bytes = prompt.num_shared * ID_BYTES
        if num_bytes > len(sequence):
            return None
        answer = turns[prompt.turn_id].token_ids or b""
        sequence = sequence[:num_bytes] + prompt.tail_ids + answer
    return sequence
