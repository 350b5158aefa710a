"""What can be done when a chat has filled its model's context: counted, never guessed.

Every number is the length of a prompt as it would be sent. Nothing here changes a chat.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from localpaged.chat.prompting import answered, known_ids, prompt_ids
from localpaged.chat.view import sent
from localpaged.prompt import ChatModel, PromptMessage
from localpaged.store.rows import Message, Turn
from localpaged.store.store import Conversation

SUMMARY_REQUEST = (
    "Summarise our conversation so far for yourself: what was asked, what was found and decided, "
    "and every name and number that is needed to go on. Write no more than 150 words."
)
# room for an answer: a quarter of a small context, and no more than this of a large one
ROOM_TOKENS, SUMMARY_ROOM_TOKENS = 1_024, 320
ROOM_SHARE = 4


@dataclass(frozen=True, slots=True)
class Slide:
    """The view may begin at the message `view_hash`; what comes before is not sent any more.

    The prompt then has `prompt_tokens`, of which `new_tokens` must be read again.
    """

    view_hash: str
    num_hidden: int
    prompt_tokens: int
    new_tokens: int


@dataclass(frozen=True, slots=True)
class Summary:
    """A fork at the answer `at_hash` has room for a summary of `answer_tokens`, asked for by
    `prompt_tokens`.

    What comes after it, `rest_hashes`, follows the summary word by word.
    """

    at_hash: str
    num_messages: int
    prompt_tokens: int
    answer_tokens: int
    rest_hashes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ForkPlace:
    """A fork at the answer `at_hash` has `tokens` of context; None when that was not counted."""

    at_hash: str
    question: str
    tokens: int | None


@dataclass(frozen=True, slots=True)
class ContextRoom:
    """How full a chat is, what `question` was asked last, and the ways there are to go on.

    `prompt_tokens` is what the chat sends now, with the answer so far. `is_refused`: the question
    has no answer; else the answer was cut.
    """

    chat_id: str
    turn_id: str
    question: str
    is_refused: bool
    prompt_tokens: int
    context_length: int
    slide: Slide | None
    summary: Summary | None
    places: tuple[ForkPlace, ...]


def count_room(
    conversation: Conversation, turn: Turn, model: ChatModel, *, context_length: int, room: int
) -> ContextRoom:
    """Count the ways on for `turn`, the chat's last; `room` tokens are to be free for an answer.

    Raises ModelError when the model's template refuses the conversation.
    """
    return _Counter(conversation, turn, model, context_length=context_length, room=room).count()


def answer_room(context_length: int, max_tokens: int | None) -> int:
    """Tokens that should be free for an answer."""
    usual = min(ROOM_TOKENS, max(1, context_length // ROOM_SHARE))
    return usual if max_tokens is None else max_tokens


class _Counter:
    """Renders what would be sent. `_told` begins with the system message if there is one.

    Invariant: the last of `_told` is the question that waits for its answer.
    """

    def __init__(
        self,
        conversation: Conversation,
        turn: Turn,
        model: ChatModel,
        *,
        context_length: int,
        room: int,
    ) -> None:
        self._conversation = conversation
        self._turn = turn
        self._model = model
        self._limit = context_length
        self._room = room
        self._known = known_ids(conversation, model)
        told = answered(sent(conversation.chat, conversation.messages))
        self._system = [message for message in told[:1] if message.role == "system"]
        self._told = told[len(self._system) :]

    def count(self) -> ContextRoom:
        ids = self._ids(self._told)
        return ContextRoom(
            chat_id=self._conversation.chat.id,
            turn_id=self._turn.id,
            question=self._told[-1].text,
            is_refused=not self._turn.partial_text,
            prompt_tokens=len(ids),
            context_length=self._limit,
            slide=self._slide(ids),
            summary=self._summary(),
            places=self._places(),
        )

    def _slide(self, now: Sequence[int]) -> Slide | None:
        """The view that keeps as many messages as fit; the question alone if need be."""
        starts = [i for i, message in enumerate(self._told) if message.role == "user"][1:]
        if not starts:
            return None
        for room in (self._room, 1):
            at = bisect_left(starts, True, key=lambda i: self._fits(self._told[i:], room))
            if at < len(starts):
                start = starts[at]
                ids = self._ids(self._told[start:])
                new = len(ids) - _num_common(now, ids)
                return Slide(self._told[start].hash, start, len(ids), new)
        return None

    def _summary(self) -> Summary | None:
        """The latest answer up to which the chat can be summed up in what is left of the room."""
        summary_room = min(SUMMARY_ROOM_TOKENS, self._limit // ROOM_SHARE)
        before = self._told[:-1]
        ends = [i + 1 for i, message in enumerate(before) if message.role == "assistant"]
        room = self._limit - summary_room
        # a long chat is rendered a few times, not once an answer: others wait for the worker
        num = bisect_left(ends, True, key=lambda end: self._summary_tokens(before[:end]) > room)
        if not num:
            return None
        end = ends[num - 1]
        tokens, rest = self._summary_tokens(before[:end]), self._told[end:]
        after = len(self._ids(rest)) + summary_room
        if end < 2 or after + summary_room // ROOM_SHARE > self._limit:
            return None
        hashes = tuple(message.hash for message in rest[:-1])
        return Summary(before[end - 1].hash, end, tokens, summary_room, hashes)

    def _summary_tokens(self, messages: Sequence[Message]) -> int:
        request = PromptMessage("user", SUMMARY_REQUEST)
        return len(self._model.render([*self._prompt([*self._system, *messages]), request]))

    def _places(self) -> tuple[ForkPlace, ...]:
        made_by = {turn.tip_hash: turn for turn in self._conversation.turns}
        places: list[ForkPlace] = []
        for question, answer in zip(self._told, self._told[1:], strict=False):
            if answer.role == "assistant":
                turn = made_by.get(answer.hash)
                places.append(ForkPlace(answer.hash, question.text, _used(turn)))
        return tuple(places)

    def _fits(self, messages: Sequence[Message], room: int) -> bool:
        return len(self._ids(messages)) + room <= self._limit

    def _ids(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The prompt of a conversation that has the system text and these messages."""
        prompt = self._prompt([*self._system, *messages])
        return prompt_ids(self._model, prompt, self._turn)[0]

    def _prompt(self, messages: Sequence[Message]) -> list[PromptMessage]:
        return [PromptMessage(m.role, m.text, self._known.get(m.hash)) for m in messages]


def _used(turn: Turn | None) -> int | None:
    if turn is None or turn.prompt_tokens is None or turn.completion_tokens is None:
        return None
    return turn.prompt_tokens + turn.completion_tokens


def _num_common(left: Sequence[int], right: Sequence[int]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))
