"""What the chat service tells the UI. Frozen values, sent from the thread where they happen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localpaged.chat.thought import TextPart

if TYPE_CHECKING:
    from localpaged.chat.cache_report import CacheReport
    from localpaged.chat.thought import Thought
    from localpaged.chat.token_chances import TokenChance
    from localpaged.engine.events import LoadEvent, ReadyEvent, Usage
    from localpaged.engine.finish_reason import FinishReason
    from localpaged.errors import LocalPagedError
    from localpaged.store.rows import TurnStatus


@dataclass(frozen=True, slots=True)
class TurnPrefill:
    """The prompt is being read: `cached` + newly computed tokens of `total`.

    The last `begun_tokens` of it are of the answer, which goes on.
    """

    chat_id: str
    turn_id: str
    cached_tokens: int
    computed_tokens: int
    prompt_tokens: int
    begun_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TurnCacheReport:
    """What of the prompt was found in the engine's memory, and why not more; once a request."""

    chat_id: str
    turn_id: str
    report: CacheReport


@dataclass(frozen=True, slots=True)
class TurnText:
    """More text of an answer. Append `text`; `token_count` is the answer's total so far.

    `offset` is where `text` begins in the answer, in characters: who read the transcript in
    between knows by it what is there already. `part` tells whether the text answers or is
    reasoning, `thought` where the reasoning lies, as far as that is known with this text.
    """

    chat_id: str
    turn_id: str
    text: str
    token_count: int
    offset: int = 0
    part: TextPart = TextPart.ANSWER
    thought: Thought | None = None


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """An answer is complete, stopped or failed; what was sent stays and is saved.

    `chances` has an entry for each token that came now, where log probabilities were asked for.
    """

    chat_id: str
    turn_id: str
    status: TurnStatus
    finish_reason: FinishReason | None
    usage: Usage | None
    error: LocalPagedError | None
    thought: Thought | None = None
    chances: tuple[TokenChance, ...] = ()


@dataclass(frozen=True, slots=True)
class TurnModelMissing:
    """The model that was chosen for a chat is not here any more: the default answers this turn."""

    chat_id: str
    turn_id: str
    chosen: str
    default: str


@dataclass(frozen=True, slots=True)
class ModelLoading:
    """A model loads; `event` tells the stage."""

    event: LoadEvent

    @property
    def model_name(self) -> str:
        """Which further model; "" is the run's default."""
        return self.event.model_name


@dataclass(frozen=True, slots=True)
class ModelReady:
    """A model answers from now on. `model_name` is a further one's; "" for the run's default."""

    event: ReadyEvent
    model_name: str = ""


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """There is no model: it could not be loaded, or the engine died.

    `model_name` is that of a further model, without which all others go on; "" for the default.
    """

    error: LocalPagedError
    model_name: str = ""


@dataclass(frozen=True, slots=True)
class ModelUnloaded:
    """A further model and its memory are gone."""

    model_name: str


@dataclass(frozen=True, slots=True)
class SavingFailed:
    """History is not being saved at the moment (disk full, read-only); it is tried again."""

    error: LocalPagedError


@dataclass(frozen=True, slots=True)
class SavingRecovered:
    """What could not be saved is saved now."""


ChatEvent = (
    TurnPrefill
    | TurnCacheReport
    | TurnText
    | TurnEnded
    | TurnModelMissing
    | ModelLoading
    | ModelReady
    | ModelFailed
    | ModelUnloaded
    | SavingFailed
    | SavingRecovered
)
