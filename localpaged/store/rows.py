"""Rows of the history as frozen values; they may cross threads. Times are Unix seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class TurnStatus(StrEnum):
    """Where an answer stands. The first three are open, the rest final."""

    QUEUED = "queued"
    PREFILL = "prefill"
    STREAMING = "streaming"
    DONE = "done"
    STOPPED = "stopped"
    ERROR = "error"
    INTERRUPTED = "interrupted"

    @property
    def is_open(self) -> bool:
        """Whether the answer may still grow."""
        return self in (TurnStatus.QUEUED, TurnStatus.PREFILL, TurnStatus.STREAMING)


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the tree; `hash` covers the role, the text and the whole way to the root.

    A message that waits behind a running answer has no place in the tree yet: in a transcript
    its `hash` is `waiting:` and its turn's id.
    """

    hash: str
    parent_hash: str | None
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class Chat:
    """A named tip of the message tree. `forked_from` is the chat it was split off from.

    `options` are sampling parameters as JSON that this chat has of its own. `system` stands for
    the conversation's own system message wherever the chat is shown or sent; "" is none, None
    leaves it as it is. The model is not shown what comes before the message `view_hash`.
    `is_unread`: an answer ended here while nobody looked. `model` is the name or path of the model
    that was chosen to answer here, "" being the default of each run; turns tell who did.
    `is_hidden`: a branch of a compare that is not kept is in no list of chats. `base_hash` is the
    tip that the chat began with: the way there belongs to it whoever's turns made it.
    """

    id: str
    title: str
    tip_hash: str | None
    model: str
    draft: str
    created_at: float
    updated_at: float
    deleted_at: float | None = None
    forked_from: str | None = None
    options: str = "{}"
    system: str | None = None
    archived_at: float | None = None
    is_unread: bool = False
    view_hash: str | None = None
    is_hidden: bool = False
    base_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """A question's answer: where it hangs (`parent_hash`), what became of it, what it cost.

    `tip_hash` is the answer's message, None while it is open. `partial_text` is what there is
    of an open answer so far, `completion_tokens` its length. `question` is the user's text while it
    waits behind a running answer; once it is in the tree it is None and `parent_hash` names it.
    `options` are the sampling parameters as JSON. `token_ids` are the ids that the answer's text
    was made of, packed, and maybe a few of which the text does not tell: an end token, a stop
    string. They belong to the model of that name and `model_fingerprint`. None: not known.
    `cache_report` tells as JSON what of the prompt was found in memory and why not more.
    `thought` tells as JSON where the answer's reasoning lies and what it took; None: there is none.
    """

    id: str
    chat_id: str
    parent_hash: str | None
    tip_hash: str | None
    status: TurnStatus
    model: str
    partial_text: str = ""
    finish_reason: str | None = None
    error: str | None = None
    seed: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    ttft_s: float | None = None
    decode_s: float | None = None
    created_at: float = 0.0
    finished_at: float | None = None
    question: str | None = None
    options: str = "{}"
    token_ids: bytes | None = None
    model_fingerprint: str | None = None
    cache_report: str | None = None
    thought: str | None = None


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """What the engine read for a turn: the first `num_shared` ids of what it read and wrote for
    `base_turn_id`, then `tail_ids` (packed).

    `num_computed` tokens of prompt and answer had KV when the turn ended, in the memory of the run
    `run_id`; `namespace` names the model and the number format it was computed with.
    """

    turn_id: str
    base_turn_id: str | None
    num_shared: int
    tail_ids: bytes
    num_computed: int
    namespace: str
    run_id: str


@dataclass(frozen=True, slots=True)
class Siblings:
    """The versions of a line that belong to its chat, the oldest first; at least two.

    A version is named by the hash of its message, an open answer by the id of its turn. `place`
    is the line's own, from 0.
    """

    keys: tuple[str, ...]
    place: int


@dataclass(frozen=True, slots=True)
class Exchange:
    """A line of a transcript: a message and, for an answer, the turn that made it.

    For an open answer `message` is None and the turn's `partial_text` holds the text.
    `siblings` is None for a line of which there is one version.
    """

    message: Message | None
    turn: Turn | None
    siblings: Siblings | None = None

    @property
    def key(self) -> str:
        """The hash of the message, else the id of the open turn."""
        if self.message is not None:
            return self.message.hash
        assert self.turn is not None, "a line is a message or an open answer"
        return self.turn.id


@dataclass(frozen=True, slots=True)
class Compare:
    """A prompt that the chats of `chat_ids` answer side by side, in this order.

    They were split off from `from_chat` at `parent_hash`, or began with the prompt. With `is_blind`
    nobody is told which model is which before a vote, which names a chat and who answered in it.
    """

    id: str
    prompt: str
    created_at: float
    chat_ids: tuple[str, ...]
    from_chat: str | None = None
    parent_hash: str | None = None
    is_blind: bool = False
    voted_chat: str | None = None
    voted_model: str | None = None
