"""Looking at an answer token by token, and going on from any of them.

What is shown is measured when it is asked for, by reading the answer once more: everything before
it is found in the engine's memory, so it costs the answer's own tokens.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from localpaged.abilities import Ability, abilities_of
from localpaged.chat.chat_options import sampling_to_continue
from localpaged.chat.errors import answer_is_running, unexpected
from localpaged.chat.later import RunSoon, do_later
from localpaged.chat.live import LiveTurn, LiveTurns
from localpaged.chat.models import Models, opened_model
from localpaged.chat.prompt_text import PromptText, prompt_pieces
from localpaged.chat.prompting import ids_of, make_prompt, prompt_ids, text_of
from localpaged.chat.sampling import may_be_guessed, to_options, with_seed
from localpaged.chat.thought import from_json, to_json
from localpaged.chat.token_view import TokenView, viewed
from localpaged.engine.events import (
    Event,
    FailEvent,
    FinishEvent,
    PrefillEvent,
    PromptLogprobsEvent,
    TokenLogprob,
)
from localpaged.engine.params import Request, RequestId, SamplingParams
from localpaged.engine.port import EnginePort
from localpaged.errors import ChatError, LocalPagedError, ModelNotFound
from localpaged.prompt import ChatModel, PromptMessage
from localpaged.store.rows import Chat, Turn, TurnStatus
from localpaged.store.store import Store, new_id
from localpaged.store.token_ids import pack, unpack
from localpaged.store.writes import Write, change_chat

NUM_CANDIDATES = 10


@dataclass(slots=True)
class _Measuring:
    """A request that is to tell how likely an answer was."""

    turn: Turn
    model: ChatModel
    ids: tuple[int, ...]
    is_exact: bool
    done: Future[TokenView]
    told: Callable[[PrefillEvent], None]
    logprobs: list[TokenLogprob] = field(default_factory=list)


class ChatTokens:
    """Any thread; `on_events` is called on the engine's alone.

    Invariant: every measuring in `_open` ends with an event of its request.
    """

    def __init__(
        self,
        *,
        store: Store,
        live: LiveTurns,
        engine: EnginePort,
        models: Models,
        run_soon: RunSoon,
        begin: Callable[[LiveTurn, Write], None],
        limit_of: Callable[[ChatModel], int],
    ) -> None:
        """`begin` has a turn answered; `limit_of` tells how many tokens a model's context has."""
        self._store = store
        self._live = live
        self._engine = engine
        self._models = models
        self._run_soon = run_soon
        self._begin = begin
        self._limit_of = limit_of
        self._open: dict[RequestId, _Measuring] = {}
        engine.add_listener(self.on_events)

    def view(
        self, turn_id: str, *, told: Callable[[PrefillEvent], None] = lambda event: None
    ) -> Future[TokenView]:
        """Measure an answer. The future may end with any LocalPagedError; cancelled, it ends the
        measuring. `told` is called on the engine's thread with how far it is."""
        done: Future[TokenView] = Future()

        def work() -> None:
            if done.cancelled():
                return
            try:
                self._measure(turn_id, done, told)
            except LocalPagedError as error:
                _fail(done, error)
            except Exception as error:  # whoever waits must hear of it
                _fail(done, unexpected("The answer could not be read", error))

        self._run_soon(work)
        return done

    def prompt(self, turn_id: str) -> Future[PromptText]:
        """Tell what stood before an answer. The future may end with any LocalPagedError."""
        return do_later(self._run_soon, lambda: self._prompt_text(turn_id))

    def fork(self, turn_id: str, num_tokens: int, next_token_id: int | None) -> Chat:
        """Go on from a token in a chat of its own; see ChatService.fork_at_token."""
        live = self._live.get(turn_id)
        turn = self._store.turn(turn_id) if live is None else live.row()
        if turn.question is not None or turn.parent_hash is None:
            raise ChatError("The answer has not begun yet.", hint="Wait for it.")
        model, choice = self._model_of(turn)
        abilities_of(model).require(Ability.TOKEN_FORK)
        ids, _ = self._answer_ids(turn, model)
        if not 0 <= num_tokens <= len(ids):
            raise ChatError(f"The answer has {len(ids):,} tokens, not {num_tokens:,}.")
        kept = _text_ids(ids[:num_tokens], model)
        if next_token_id is not None:
            kept = (*ids[:num_tokens], _text_id(next_token_id, model))
        return self._go_on(turn, kept, model, choice)

    def on_events(self, events: tuple[Event, ...]) -> None:
        """Collect what is told of measured answers; never waits."""
        for event in events:
            if isinstance(event, PrefillEvent):
                if (measuring := self._open.get(event.request_id)) is not None:
                    measuring.told(event)
            elif isinstance(event, PromptLogprobsEvent):
                if (measuring := self._open.get(event.request_id)) is not None:
                    measuring.logprobs += event.logprobs
            elif isinstance(event, (FinishEvent, FailEvent)):
                measured = self._open.pop(event.request_id, None)
                if measured is not None:
                    # spelling hundreds of tokens is no work for the engine's thread
                    self._run_soon(partial(_tell, measured, event))

    # inside

    def _prompt_text(self, turn_id: str) -> PromptText:
        live = self._live.get(turn_id)
        turn = self._store.turn(turn_id) if live is None else live.row()
        if turn.question is not None or turn.parent_hash is None:
            raise ChatError(
                "The question is waiting: nothing was read for it yet.", hint="Wait for it."
            )
        model, _ = self._model_of(turn)
        abilities_of(model).require(Ability.TOKENS)
        ids = self._prompt_of(turn, model)
        is_as_read = ids_of(turn, model) is not None and self._store.sent(turn.id) is not None
        return PromptText(
            model.name, prompt_pieces(ids, model), len(ids), is_as_read, turn.cached_tokens
        )

    def _measure(
        self, turn_id: str, done: Future[TokenView], told: Callable[[PrefillEvent], None]
    ) -> None:
        turn = self._store.turn(turn_id)
        if self._live.get(turn_id) is not None or turn.tip_hash is None:
            raise answer_is_running()
        model, _ = self._model_of(turn)
        abilities_of(model).require(Ability.TOKENS)
        ids, is_exact = self._answer_ids(turn, model)
        prompt = self._prompt_of(turn, model)
        room = self._limit_of(model) - 1 - len(prompt)
        if not ids or room <= 0:
            raise ChatError("The answer has no tokens to look at.")
        request = Request(
            new_id(),
            (*prompt, *ids[:room]),
            SamplingParams(temperature=0.0, max_tokens=1),
            chat_id=turn.chat_id,
            model=self._models.engine_name(model),
            prompt_logprobs=NUM_CANDIDATES,
            prompt_logprobs_from=len(prompt),
            speculation=False,
        )
        self._open[request.id] = _Measuring(turn, model, ids, is_exact, done, told)
        self._engine.submit(request)
        done.add_done_callback(lambda _: self._left(request.id, done))

    def _left(self, request_id: RequestId, done: Future[TokenView]) -> None:
        """Nobody waits for it any more: others need the engine."""
        if done.cancelled():
            self._engine.cancel(request_id)

    def _model_of(self, turn: Turn) -> tuple[ChatModel, str]:
        """Return the model that answered, and what a chat chooses it by: a path, maybe."""
        chosen = self._store.chat(turn.chat_id).model
        for choice in dict.fromkeys((chosen, turn.model)):
            try:
                opening = self._models.find(choice)
            except ModelNotFound:
                continue
            opened = opened_model(opening)
            if opened.name == turn.model:
                return opened, choice
        raise ModelNotFound(
            f"{turn.model}, which made this answer, is not here any more.",
            hint="`localpaged models pull` fetches models.",
        )

    def _answer_ids(self, turn: Turn, model: ChatModel) -> tuple[tuple[int, ...], bool]:
        """Return the tokens of an answer, and whether they are those it was made of."""
        known = ids_of(turn, model)
        if known is not None:
            return known, True
        text = turn.partial_text
        if turn.tip_hash is not None:
            text = self._store.path_to(turn.tip_hash)[-1].text
        if not text:
            return (), True
        begun = replace(turn, partial_text=text, token_ids=None)
        ids, num_ids = prompt_ids(model, [PromptMessage("user", "?")], begun)
        if num_ids is None:
            raise ChatError(
                "The tokens of this answer are not known, and the model's template does not "
                "separate it from its question.",
                hint="Ask again: the tokens of new answers are kept.",
            )
        return ids[len(ids) - num_ids :], False

    def _prompt_of(self, turn: Turn, model: ChatModel) -> tuple[int, ...]:
        """Return what stands before an answer: what was read for it, if that is known."""
        if ids_of(turn, model) is not None:
            sent = self._store.sent(turn.id)
            if sent is not None:
                return unpack(sent.ids)[: -len(unpack(turn.token_ids or b""))]
        unanswered = replace(turn, partial_text="", token_ids=None)
        return make_prompt(self._store, model, unanswered).ids

    def _go_on(self, turn: Turn, ids: tuple[int, ...], model: ChatModel, choice: str) -> Chat:
        chat = self._store.fork(turn.chat_id, at_hash=turn.parent_hash)
        text = text_of(model.pieces(ids))
        thought = from_json(turn.thought)
        clipped = None if thought is None else thought.clipped(len(text))
        sampling = sampling_to_continue(chat, turn)
        may_guess = may_be_guessed(sampling)
        sampling = with_seed(sampling)
        begun = Turn(
            id=new_id(),
            chat_id=chat.id,
            parent_hash=turn.parent_hash,
            tip_hash=None,
            status=TurnStatus.QUEUED,
            model=model.name,
            partial_text=text,
            completion_tokens=len(ids),
            seed=sampling.seed,
            created_at=time.time(),
            options=to_options(sampling),
            token_ids=pack(ids) if ids else None,
            model_fingerprint=model.fingerprint,
            thought=None if clipped is None else to_json(clipped),
        )
        # these tokens are this model's, whatever the chat chose since
        change = change_chat(chat.id, model=choice, tip_hash=turn.parent_hash)
        write = Write(chat_changes=(change,), turns=(begun,), claimed_chat=chat.id)
        live = LiveTurn(begun, sampling, is_foreground=True, may_guess=may_guess)
        self._begin(live, write)
        return chat


def _text_ids(ids: tuple[int, ...], model: ChatModel) -> tuple[int, ...]:
    """Leave out what ended the answer."""
    end = len(ids)
    while end and not _is_text(ids[end - 1], model):
        end -= 1
    return ids[:end]


def _text_id(token_id: int, model: ChatModel) -> int:
    if not _is_text(token_id, model):
        raise ChatError(
            "That token ends the answer; nothing can follow it.", hint="Choose another one."
        )
    return token_id


def _is_text(token_id: int, model: ChatModel) -> bool:
    # some tokenizers put a space before a text, which is no part of it: a token, all the same
    return token_id >= 0 and (bool(model.pieces((token_id,))[0]) or model.spell((token_id,)) == " ")


def _tell(measured: _Measuring, event: FinishEvent | FailEvent) -> None:
    if isinstance(event, FailEvent):
        _fail(measured.done, event.error)
        return
    if not measured.done.set_running_or_notify_cancel():
        return
    assert event.usage is not None, "an engine in this process counts"
    measured.done.set_result(
        TokenView(
            measured.turn.chat_id,
            measured.turn.id,
            measured.model.name,
            viewed(measured.ids, measured.logprobs, measured.model),
            measured.is_exact,
            event.usage.cached_tokens,
            event.usage.new_tokens,
        )
    )


def _fail(done: Future[TokenView], error: LocalPagedError) -> None:
    if done.set_running_or_notify_cancel():
        done.set_exception(error)
