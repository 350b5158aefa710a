"""Open answers of this process."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from localpaged.chat.loop_watch import LoopWatch
from localpaged.chat.prompting import Prompt
from localpaged.chat.sampling import may_be_guessed, to_options, with_seed
from localpaged.chat.thought import ThoughtReader, to_json
from localpaged.engine.events import PrefillEvent, TokenLogprob, Usage
from localpaged.engine.params import RequestId, SamplingParams
from localpaged.prompt import ChatModel
from localpaged.store.rows import Chat, Turn, TurnStatus
from localpaged.store.store import new_id
from localpaged.store.token_ids import pack


class Piece(NamedTuple):
    """Text that arrived, and how long the answer is with it."""

    text: str
    token_count: int
    num_chars: int
    token_ids: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class LiveTurn:
    """A turn on its way.

    The worker owns it, but between submit and the end of its request the engine's thread does.
    Others may call `row` at any time: it is put together from frozen parts. `opening` is the model
    that was chosen to answer, `model` what it turned out to be; `may_guess` see `sampling`.
    """

    turn: Turn
    sampling: SamplingParams
    is_foreground: bool
    may_guess: bool = True
    request_id: RequestId | None = None
    is_durable: bool = False
    opening: Future[ChatModel] | None = None
    model: ChatModel | None = None
    prompt: Prompt | None = None
    prefill: PrefillEvent | None = None
    cache_report: str | None = None
    logprobs: list[TokenLogprob] = field(default_factory=list)
    loops: LoopWatch = field(default_factory=LoopWatch)
    has_looped: bool = False
    reader: ThoughtReader = field(default_factory=lambda: ThoughtReader(None))
    _pieces: list[Piece] = field(default_factory=list)

    @property
    def last(self) -> Piece:
        """The latest piece; before the first one, what a continued answer began with."""
        if self._pieces:
            return self._pieces[-1]
        begun = self.turn.partial_text
        return Piece(begun, self.turn.completion_tokens or 0, len(begun))

    @property
    def num_begun(self) -> int:
        """Tokens at the end of the prompt that are of the answer, which goes on."""
        return 0 if self.prompt is None else self.prompt.num_begun or 0

    @property
    def new_ids(self) -> tuple[int, ...]:
        """The ids that have arrived; those of a continued answer's beginning are not among them."""
        return tuple(id_ for piece in tuple(self._pieces) for id_ in piece.token_ids)

    def append(self, text: str, token_ids: tuple[int, ...]) -> Piece:
        """Add text, and the ids it was made of, to the answer."""
        before = self.last
        piece = Piece(
            text,
            before.token_count + len(token_ids),
            before.num_chars + len(text),
            token_ids,
        )
        self._pieces.append(piece)
        return piece

    def row(self) -> Turn:
        """Return the turn with all the text there is."""
        turn = self.turn
        if self.cache_report is not None:
            turn = replace(turn, cache_report=self.cache_report)
        thought = self.reader.thought
        if thought is not None:
            turn = replace(turn, thought=to_json(thought))
        pieces = tuple(self._pieces)
        if not pieces:
            return turn
        return replace(
            turn,
            partial_text=turn.partial_text + "".join(piece.text for piece in pieces),
            completion_tokens=pieces[-1].token_count or None,
            token_ids=_all_ids(turn, pieces),
        )

    def total_usage(self, usage: Usage) -> Usage:
        """Return what the answer cost, with what it cost before it was continued.

        What it began with was read as a part of the prompt, and counts as the answer's alone.
        """
        return replace(
            usage,
            prompt_tokens=usage.prompt_tokens - self.num_begun,
            cached_tokens=max(0, usage.cached_tokens - self.num_begun),
            completion_tokens=usage.completion_tokens + (self.turn.completion_tokens or 0),
            decode_s=usage.decode_s + (self.turn.decode_s or 0.0),
        )


def open_turn(
    chat: Chat,
    sampling: SamplingParams,
    *,
    question: str | None = None,
    parent_hash: str | None = None,
    is_foreground: bool = True,
) -> LiveTurn:
    """Return a new turn that is queued: for a `question`, or one that is in the tree already."""
    may_guess = may_be_guessed(sampling)
    sampling = with_seed(sampling)
    turn = Turn(
        id=new_id(),
        chat_id=chat.id,
        parent_hash=parent_hash,
        tip_hash=None,
        status=TurnStatus.QUEUED,
        model=chat.model,
        seed=sampling.seed,
        created_at=time.time(),
        question=question,
        options=to_options(sampling),
    )
    return LiveTurn(turn, sampling, is_foreground, may_guess)


def _all_ids(turn: Turn, pieces: Sequence[Piece]) -> bytes | None:
    if turn.partial_text and turn.token_ids is None:
        return None  # what a continued answer began with is known as text only
    if not any(piece.token_ids for piece in pieces):
        return turn.token_ids  # an endpoint tells none
    return (turn.token_ids or b"") + pack(id_ for piece in pieces for id_ in piece.token_ids)


class LiveTurns:
    """Finds open answers. Any thread: every method is one atomic look into a dict or a copy of it.

    Turns are added by callers and removed by the worker.
    """

    def __init__(self) -> None:
        self._by_turn: dict[str, LiveTurn] = {}
        self._by_request: dict[RequestId, LiveTurn] = {}

    def add(self, live: LiveTurn) -> None:
        """Enter a turn."""
        self._by_turn[live.turn.id] = live

    def add_request(self, request_id: RequestId, live: LiveTurn) -> None:
        """Enter the request that a turn is answered by."""
        live.request_id = request_id
        self._by_request[request_id] = live

    def remove(self, live: LiveTurn) -> None:
        """Forget a turn that has ended."""
        self._by_turn.pop(live.turn.id, None)
        if live.request_id is not None:
            self._by_request.pop(live.request_id, None)

    def get(self, turn_id: str) -> LiveTurn | None:
        """Return an open turn of this process."""
        return self._by_turn.get(turn_id)

    def by_request(self, request_id: RequestId) -> LiveTurn | None:
        """Return the turn that a request answers."""
        return self._by_request.get(request_id)

    def of_chat(self, chat_id: str) -> Sequence[LiveTurn]:
        """Return the chat's open turns, in the order they were asked."""
        return [live for live in list(self._by_turn.values()) if live.turn.chat_id == chat_id]
