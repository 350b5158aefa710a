"""What the UI knows of one chat: plain values fed by chat events, whether it is shown or not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from localpaged.chat.cache_report import CacheReport, report_of
from localpaged.chat.thought import Thought, answer_of, from_json
from localpaged.engine.finish_reason import FinishReason
from localpaged.store.rows import Chat, Exchange, Message, Siblings, Turn, TurnStatus
from localpaged.tui import told
from localpaged.tui.labels import expanded

if TYPE_CHECKING:
    from localpaged.chat.events import TurnCacheReport, TurnEnded, TurnPrefill, TurnText
    from localpaged.engine.events import Usage

NEW_CHAT_TITLE = "New chat"
TITLE_CHARS = 60
FINISH_REASONS = frozenset(FinishReason)
BROKEN_OFF = (TurnStatus.STOPPED, TurnStatus.INTERRUPTED, TurnStatus.ERROR)


class ChatState(StrEnum):
    """What the sidebar tells about a chat."""

    IDLE = "idle"
    QUEUED = "queued"
    READING = "reading"
    GENERATING = "generating"
    UNREAD = "unread"
    ERROR = "error"
    INTERRUPTED = "interrupted"

    @property
    def is_running(self) -> bool:
        """Whether the engine has something to do for the chat."""
        return self in (ChatState.QUEUED, ChatState.READING, ChatState.GENERATING)


@dataclass(slots=True)
class Question:
    """A message that is not an answer: the user's, or the chat's system prompt."""

    text: str
    is_system: bool = False
    # what comes before is not shown to the model
    is_view_start: bool = False
    siblings: Siblings | None = None
    # the message's hash; empty for one that was just sent
    key: str = field(default="", compare=False)


@dataclass(slots=True)
class Answer:
    """One answer, open or final. `text` only grows while it is open.

    `is_stopping` from the moment the user asked for it, which the engine does after its step.
    """

    turn: Turn
    text: str = ""
    token_count: int = 0
    prefill: TurnPrefill | None = None
    usage: Usage | None = None
    finish_reason: FinishReason | None = None
    error: str = ""
    hint: str = ""
    first_text_at: float | None = None
    first_token_count: int = 0
    is_last: bool = True
    is_stopping: bool = False
    new_report: CacheReport | None = None
    # continue as soon as it has stopped
    is_resume_asked: bool = False
    thought: Thought | None = None
    # the question found no room in the model's context, or the answer filled it
    is_context_full: bool = False
    # an endpoint made it, and cannot go on with it, though another model may
    is_by_endpoint: bool = False
    is_final_there: bool = False
    siblings: Siblings | None = None

    @property
    def status(self) -> TurnStatus:
        """Where the answer stands."""
        return self.turn.status

    @property
    def is_open(self) -> bool:
        """Whether it may still grow."""
        return self.turn.status.is_open

    @property
    def body(self) -> str:
        """The text without its reasoning; all of it where nothing but reasoning was written."""
        return answer_of(self.text, self.thought) or self.text

    @property
    def cache_report(self) -> CacheReport | None:
        """What of its prompt was found in memory, and why not more."""
        return self.new_report or report_of(self.turn)

    @property
    def is_cut_by_context(self) -> bool:
        """Whether it filled the context that it was made with: no limit of its own was reached."""
        limit = json.loads(self.turn.options or "{}").get("max_tokens", 0)
        is_short = limit is None or (isinstance(limit, int) and self.token_count < limit)
        return self.finish_reason is FinishReason.LENGTH and is_short

    @property
    def can_continue(self) -> bool:
        """Whether it is the chat's last answer and ended before its end."""
        cut = self.finish_reason is FinishReason.LENGTH
        return self.is_last and (cut or self.status in BROKEN_OFF)


Entry = Question | Answer


@dataclass(slots=True)
class Draft:
    """What is typed but not sent. `pastes` holds the text behind each paste label in `text`."""

    text: str = ""
    pastes: dict[str, str] = field(default_factory=dict)

    @property
    def full(self) -> str:
        """The text as it would be sent."""
        return expanded(self.text, self.pastes)


@dataclass(slots=True)
class Editing:
    """A message that is edited in the prompt: its hash, its place, what is typed.

    `text` is what it was. The chat's own draft waits until the edit is sent or left.
    """

    key: str
    entry: int
    draft: Draft
    text: str


class SessionModel:
    """One chat. UI thread only.

    Invariant: open answers are the last ones, the oldest of them is the one being made and the
    others wait behind it. `chat` is None until something is worth saving.
    """

    def __init__(self, chat: Chat | None = None) -> None:
        self.chat = chat
        self.entries: list[Entry] = []
        self.is_loaded = chat is None
        self.is_unread = chat is not None and chat.is_unread
        self.editing: Editing | None = None
        # how deep it hangs in the tree of forks, and when anything in that tree was last used
        self.depth = 0
        self.family_used_at = chat.updated_at if chat is not None else 0.0
        # the tip that the transcript was read at; None: the next one is known to be ours
        self.seen_tip: str | None = chat.tip_hash if chat is not None else None
        self.draft = Draft(chat.draft if chat is not None else "")
        self.saved_draft = self.draft.full
        self.last_status: TurnStatus | None = None

    @property
    def id(self) -> str:
        """The chat's id; empty while it is not saved."""
        return self.chat.id if self.chat is not None else ""

    @property
    def title(self) -> str:
        """The chat's title, else the start of its first message."""
        if self.chat is not None and self.chat.title.strip():
            return self.chat.title
        for entry in self.entries:
            if isinstance(entry, Question) and not entry.is_system and entry.text.strip():
                return entry.text.strip().splitlines()[0][:TITLE_CHARS]
        return NEW_CHAT_TITLE

    @property
    def unsent(self) -> str:
        """What is typed here and nowhere else: the draft, and a message that is being edited."""
        draft, editing = self.draft.full, self.editing
        edited = "" if editing is None else editing.draft.full
        if editing is None or not edited.strip() or edited in (editing.text, f"/{editing.text}"):
            return draft
        return f"{draft}\n{edited}" if draft else edited

    @property
    def last_answer(self) -> Answer | None:
        """The chat's newest answer."""
        return next((e for e in reversed(self.entries) if isinstance(e, Answer)), None)

    @property
    def open_answer(self) -> Answer | None:
        """The answer that is being made; others may wait behind it."""
        oldest: Answer | None = None
        for entry in reversed(self.entries):
            if isinstance(entry, Answer):
                if not entry.is_open:
                    break
                oldest = entry
        return oldest

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it to lose."""
        return self.is_loaded and not self.entries and not self.draft.full.strip()

    @property
    def state(self) -> ChatState:
        """What the sidebar shows."""
        answer = self.open_answer or self.last_answer
        status = answer.status if answer is not None else self.last_status
        if status is TurnStatus.QUEUED:
            return ChatState.QUEUED
        if status is TurnStatus.PREFILL:
            return ChatState.READING
        if status is TurnStatus.STREAMING:
            return ChatState.GENERATING
        if self.is_unread and status is not TurnStatus.ERROR:
            return ChatState.UNREAD
        if status is TurnStatus.ERROR:
            return ChatState.ERROR
        return ChatState.INTERRUPTED if status is TurnStatus.INTERRUPTED else ChatState.IDLE

    @property
    def is_running(self) -> bool:
        """Whether `state` is one that runs; asked of every chat that is listed at every beat."""
        if not self.entries:
            return self.last_status is not None and self.last_status.is_open
        return self.state.is_running

    def load(self, exchanges: Sequence[Exchange]) -> None:
        """Take the saved transcript."""
        view_hash = None if self.chat is None else self.chat.view_hash
        self.entries = [
            entry for exchange in exchanges if (entry := _entry(exchange, view_hash)) is not None
        ]
        for entry in self.entries:
            if isinstance(entry, Answer):
                entry.is_last = entry is self.last_answer
        self.is_loaded = True
        self.seen_tip = self.chat.tip_hash if self.chat is not None else None

    def show_system(self, text: str) -> None:
        """Take another system prompt; an empty one is none."""
        first = next(iter(self.entries), None)
        has_one = isinstance(first, Question) and first.is_system
        system = [Question(text, is_system=True)] if text else []
        self.entries = [*system, *self.entries[int(has_one) :]]

    def note_status(self, exchanges: Sequence[Exchange]) -> None:
        """Remember how the chat's last answer ended, without keeping its transcript."""
        turns = [exchange.turn for exchange in exchanges if exchange.turn is not None]
        self.last_status = turns[-1].status if turns else None

    def add_sent(self, text: str, turn: Turn) -> None:
        """Echo a message that was just handed to the service, and open its answer."""
        if (previous := self.last_answer) is not None:
            previous.is_last = False
        self.entries += [Question(text), Answer(turn)]

    def reopen(self, turn: Turn) -> None:
        """Go on with the last answer under `turn`; its text so far stays."""
        answer = self.last_answer
        assert answer is not None, "only an answer can be continued"
        text = turn.partial_text or answer.text
        tokens = turn.completion_tokens or 0
        position = self.entries.index(answer)
        self.entries[position] = Answer(
            turn,
            text,
            tokens,
            first_token_count=tokens,
            thought=answer.thought,
            siblings=answer.siblings,
        )

    def answer(self, turn_id: str) -> Answer | None:
        """The answer that `turn_id` made, looked for from the end."""
        for entry in reversed(self.entries):
            if isinstance(entry, Answer) and entry.turn.id == turn_id:
                return entry
        return None

    def take_report(self, event: TurnCacheReport) -> None:
        """Take over what is known of an answer's prompt."""
        answer = self.answer(event.turn_id)
        if answer is not None:
            answer.new_report = event.report

    def take(self, event: TurnPrefill | TurnText | TurnEnded, *, now_s: float) -> None:
        """Apply one event; those of a turn that is not here are ignored."""
        answer = self.answer(event.turn_id)
        if answer is None:
            return
        if isinstance(event, told.TurnPrefill):
            answer.prefill = event
            answer.turn = replace(answer.turn, status=TurnStatus.PREFILL)
        elif isinstance(event, told.TurnText):
            # what a transcript read in between already had is not taken twice
            answer.text += event.text[max(0, len(answer.text) - event.offset) :]
            answer.token_count = event.token_count
            answer.thought = event.thought
            if answer.turn.status is not TurnStatus.STREAMING:
                answer.turn = replace(answer.turn, status=TurnStatus.STREAMING)
            if answer.first_text_at is None:
                answer.first_text_at = now_s
                answer.first_token_count = event.token_count
        else:
            _end(answer, event)


def _end(answer: Answer, event: TurnEnded) -> None:
    answer.turn = replace(answer.turn, status=event.status)
    answer.usage = event.usage or answer.usage
    answer.finish_reason = event.finish_reason
    answer.thought = event.thought
    if event.usage is not None:
        answer.token_count = event.usage.completion_tokens
    if event.error is not None:
        answer.error, answer.hint = event.error.message, event.error.hint


def _entry(exchange: Exchange, view_hash: str | None) -> Entry | None:
    message, turn = exchange.message, exchange.turn or _lost_turn(exchange.message)
    if turn is not None:
        text = message.text if message is not None else turn.partial_text
        answer = Answer(turn, text, token_count=turn.completion_tokens or 0, usage=_usage(turn))
        answer.error = turn.error or ""
        answer.siblings = exchange.siblings
        thought = from_json(turn.thought)
        answer.thought = None if thought is None else thought.clipped(len(text))
        if turn.finish_reason in FINISH_REASONS:
            answer.finish_reason = FinishReason(turn.finish_reason)
        return answer
    if message is None:
        return None
    is_view_start = message.hash == view_hash
    return Question(
        message.text,
        message.role == "system",
        is_view_start=is_view_start,
        siblings=exchange.siblings,
        key=message.hash,
    )


def _lost_turn(message: Message | None) -> Turn | None:
    """An answer stays one when what made it is not known any more."""
    if message is None or message.role != "assistant":
        return None
    return Turn("", "", message.parent_hash, message.hash, TurnStatus.DONE, model="")


def _usage(turn: Turn) -> Usage | None:
    if turn.prompt_tokens is None or turn.completion_tokens is None:
        return None
    return told.Usage(
        prompt_tokens=turn.prompt_tokens,
        cached_tokens=turn.cached_tokens or 0,
        completion_tokens=turn.completion_tokens,
        ttft_s=turn.ttft_s or 0.0,
        decode_s=turn.decode_s or 0.0,
        is_cache_told=turn.cached_tokens is not None,
    )
