"""Why was this not cached? One request's answer to it, as a frozen value and as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum

from localpaged.engine.params import BLOCK_SIZE_TOKENS
from localpaged.store.rows import Turn
from localpaged.store.text import storable


class CacheCause(StrEnum):
    """Why tokens of a prompt were computed although the chat had most of them before."""

    NOTHING = "nothing"
    """Everything that could be found was found."""
    FIRST_TURN = "first_turn"
    """The chat had nothing computed before."""
    EDITED = "edited"
    """An earlier message is another one: it was edited, or the chat went back and branched."""
    VIEW_MOVED = "view_moved"
    """The model is shown the chat from another message on: the user chose that."""
    TEMPLATE_CHANGED = "template_changed"
    """The same messages are written otherwise: other system text, template or date."""
    REASONING_STRIPPED = "reasoning_stripped"
    """The template leaves the reasoning of earlier answers out."""
    RETOKENISED = "retokenised"
    """The same text was cut into other tokens."""
    EVICTED = "evicted"
    """The engine had given the memory to something else."""
    RESTARTED = "restarted"
    """It was computed by another process."""
    OTHER_NAMESPACE = "other_namespace"
    """It was computed by another model, or in another number format."""


_SURPRISES = frozenset(
    (
        CacheCause.TEMPLATE_CHANGED,
        CacheCause.REASONING_STRIPPED,
        CacheCause.RETOKENISED,
        CacheCause.EVICTED,
    )
)


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a prompt parts from what the chat had the engine read and write before.

    `position` counts tokens from 0; `old_text` and `new_text` begin with the first token that
    differs, `common_text` ends before it. The texts are raw, and bounded.
    """

    position: int
    common_text: str
    old_text: str
    new_text: str


@dataclass(frozen=True, slots=True)
class CacheReport:
    """What of a prompt was found in the engine's memory, and why not more.

    `agreed_tokens` of the prompt are the same as what had been computed for the chat before.
    `parting` is None when all of that is in the prompt, or when it was another model's.
    `restored_tokens` of those found were read from KV files; `restore_note` is a sentence that
    tells why not more.
    """

    cause: CacheCause
    prompt_tokens: int
    matched_tokens: int
    agreed_tokens: int = 0
    parting: Parting | None = None
    restored_tokens: int = 0
    restore_note: str = ""

    @property
    def recomputed_tokens(self) -> int:
        """Prompt tokens that had to be computed, new ones included."""
        return self.prompt_tokens - self.matched_tokens

    @property
    def is_surprising(self) -> bool:
        """Whether tokens were computed again for a reason that the user did not give.

        Less than a block is no loss: memory is kept in blocks, and a last token always computed.
        """
        return self.cause in _SURPRISES and self.recomputed_tokens >= BLOCK_SIZE_TOKENS


def to_json(report: CacheReport) -> str:
    """Return the report as a turn keeps it."""
    # a tokenizer's spelling may be what no database takes, and a turn must not be lost for that
    return storable(json.dumps(asdict(report), ensure_ascii=False))


def report_of(turn: Turn) -> CacheReport | None:
    """Return what a turn keeps; None when it keeps no report, or one that is not understood."""
    if turn.cache_report is None:
        return None
    try:
        content = json.loads(turn.cache_report)
        parting = content["parting"]
        return CacheReport(
            cause=CacheCause(content["cause"]),
            prompt_tokens=content["prompt_tokens"],
            matched_tokens=content["matched_tokens"],
            agreed_tokens=content["agreed_tokens"],
            parting=None if parting is None else Parting(**parting),
            restored_tokens=int(content.get("restored_tokens", 0)),
            restore_note=str(content.get("restore_note", "")),
        )
    except (ValueError, KeyError, TypeError):
        # Another version of the program wrote it: no answer shall be unreadable for that.
        return None
