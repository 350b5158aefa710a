"""What a model thinks aloud: where it lies in an answer's text, and what it took.

Reasoning is what an answer begins with, between the model's own marks. The same words further on
are text like any other, so a stray mark never hides anything. The marks stay in the saved text:
the model's template decides what of an earlier thought it is shown again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum, StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from localpaged.prompt import ChatModel, ReasoningMarks
    from localpaged.store.rows import Turn

# a prompt that opens a thought ends with the mark, and maybe with white space
TAIL_TOKENS = 16
# white space before the first word is waited for as long as this
MAX_LEADING_CHARS = 256


class TextPart(StrEnum):
    """What a piece of an answer's text is."""

    ANSWER = "answer"
    THOUGHT = "thought"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Thought:
    """The reasoning of one answer: text[start:end], while text[after:] answers. In characters.

    `end` and `after` are None as long as it goes on, and for ever when it never ended. `seconds`
    and `tokens` were measured while it was written; None when that was cut off.
    """

    start: int
    end: int | None = None
    after: int | None = None
    seconds: float | None = None
    tokens: int | None = None

    def clipped(self, num_chars: int) -> Thought | None:
        """The reasoning of the text's first `num_chars` characters; None when there is none."""
        if self.start > num_chars:
            return None
        if self.end is None or self.after is None or self.after > num_chars:
            return Thought(self.start)
        return self


def reasoning_of(text: str, thought: Thought | None) -> str:
    """Return what was thought in `text`, without white space around it."""
    if thought is None:
        return ""
    return text[thought.start : thought.end].strip()


def answer_of(text: str, thought: Thought | None) -> str:
    """Return what of `text` answers; a thought that never ended leaves nothing."""
    if thought is None:
        return text
    return "" if thought.after is None else text[thought.after :]


def to_json(thought: Thought) -> str:
    """Return the thought as a turn keeps it."""
    return json.dumps(asdict(thought))


def from_json(saved: str | None) -> Thought | None:
    """Return what a turn keeps; None for what is no thought, for histories are imported, too.

    Raises TypeError and ValueError for JSON that has other fields, or is none.
    """
    if saved is None:
        return None
    thought = Thought(**json.loads(saved))
    places = (thought.start, thought.end or 0, thought.after or 0, thought.tokens or 0)
    is_sound = all(type(number) is int and number >= 0 for number in places)
    return thought if is_sound and isinstance(thought.seconds, int | float | None) else None


class ReadPart(NamedTuple):
    """A piece of text, and what it is."""

    part: TextPart
    text: str


class _State(Enum):
    BEGINNING = 0
    THINKING = 1
    BEHIND = 2
    ANSWERING = 3


class ThoughtReader:
    """Tells reasoning from answer while the text arrives; engine thread only.

    Invariant: the pieces told so far and `_held` are the text; what may still become a mark is
    held. `thought` is replaced, never changed. `begins_inside`: the prompt ends with the first
    mark, so that the text begins with a thought.
    """

    def __init__(
        self, marks: ReasoningMarks | None, *, begins_inside: bool = False, position: int = 0
    ) -> None:
        self._marks = marks
        self._begins_inside = begins_inside
        self._state = _State.ANSWERING if marks is None else _State.BEGINNING
        self._held = ""
        self._position = position
        self._began_s = 0.0
        self._began_tokens = 0
        self._token_count = 0
        self._earlier_s = 0.0
        self.thought: Thought | None = None

    @classmethod
    def resumed(
        cls,
        marks: ReasoningMarks | None,
        *,
        text: str,
        token_count: int,
        thought: Thought | None,
        now_s: float,
    ) -> ThoughtReader:
        """Return the reader of an answer that goes on after `text`."""
        reader = cls(marks, position=len(text))
        reader._token_count = token_count
        reader.thought = thought
        if marks is None or not text.strip():
            return reader
        reader._state = _State.ANSWERING
        if thought is not None and thought.end is None:
            reader._state = _State.THINKING
            reader._began_s = now_s
            reader._earlier_s = thought.seconds or 0.0
        return reader

    @property
    def position(self) -> int:
        """How many characters of the answer are told."""
        return self._position

    def take(self, text: str, *, token_count: int, now_s: float) -> list[ReadPart]:
        """Take more text, the answer's total with it being `token_count`; return what is sure."""
        self._held += text
        before = self._token_count
        self._token_count = token_count
        return list(self._parts(before, now_s))

    def finish(self, *, now_s: float) -> list[ReadPart]:
        """Return what was held back: the answer is over. An open thought has lasted until now."""
        is_thinking = self._state is _State.THINKING
        if is_thinking and self.thought is not None:
            self._measure(now_s)
        part = TextPart.THOUGHT if is_thinking else TextPart.ANSWER
        return list(self._told(part, len(self._held)))

    def _parts(self, tokens_before: int, now_s: float) -> Iterator[ReadPart]:
        is_going_on = True
        while is_going_on and self._held:
            state = self._state
            if state is _State.BEGINNING:
                yield from self._begin(tokens_before, now_s)
            elif state is _State.THINKING:
                yield from self._think(now_s)
            elif state is _State.BEHIND:
                yield from self._go_behind()
            else:
                yield from self._told(TextPart.ANSWER, len(self._held))
            is_going_on = self._state is not state

    def _begin(self, tokens_before: int, now_s: float) -> Iterator[ReadPart]:
        assert self._marks is not None
        words = self._held.lstrip()
        mark = self._marks.begin
        has_mark = words.startswith(mark)
        if not has_mark and mark.startswith(words) and len(self._held) <= MAX_LEADING_CHARS:
            return
        if not has_mark and not self._begins_inside:
            self._state = _State.ANSWERING
            return
        space = len(self._held) - len(words)
        yield from self._told(TextPart.MARK, space + len(mark) if has_mark else space)
        self._state = _State.THINKING
        self._began_s, self._began_tokens = now_s, tokens_before
        self.thought = Thought(self._position)

    def _think(self, now_s: float) -> Iterator[ReadPart]:
        assert self._marks is not None and self.thought is not None
        mark = self._marks.end
        at = self._held.find(mark)
        if at < 0:
            yield from self._told(TextPart.THOUGHT, len(self._held) - num_suspect(self._held, mark))
            return
        yield from self._told(TextPart.THOUGHT, at)
        end = self._position
        yield from self._told(TextPart.MARK, len(mark))
        self._state = _State.BEHIND
        self._measure(now_s)
        self.thought = replace(self.thought, end=end, after=self._position)

    def _go_behind(self) -> Iterator[ReadPart]:
        """Leave out the space before the answer; thoughts that follow at once are one."""
        assert self._marks is not None and self.thought is not None
        words = self._held.lstrip()
        mark = self._marks.begin
        space = len(self._held) - len(words)
        if words and mark.startswith(words) and words != mark:
            return
        yield from self._told(TextPart.MARK, space)
        if words.startswith(mark):
            yield from self._told(TextPart.MARK, len(mark))
            self._state = _State.THINKING
            self.thought = replace(self.thought, end=None, after=None)
            return
        self.thought = replace(self.thought, after=self._position)
        if words:
            self._state = _State.ANSWERING

    def _measure(self, now_s: float) -> None:
        assert self.thought is not None
        self.thought = replace(
            self.thought,
            seconds=round(self._earlier_s + now_s - self._began_s, 3),
            tokens=self._token_count - self._began_tokens,
        )

    def _told(self, part: TextPart, num_chars: int) -> Iterator[ReadPart]:
        if num_chars:
            text, self._held = self._held[:num_chars], self._held[num_chars:]
            self._position += num_chars
            yield ReadPart(part, text)


def reader_of(
    model: ChatModel, prompt_ids: Sequence[int], turn: Turn, *, now_s: float
) -> ThoughtReader:
    """Return the reader for what follows a prompt, or for the rest of an answer that goes on."""
    marks = model.reasoning
    if turn.partial_text.strip():
        return ThoughtReader.resumed(
            marks,
            text=turn.partial_text,
            token_count=turn.completion_tokens or 0,
            thought=from_json(turn.thought),
            now_s=now_s,
        )
    begins_inside = opens_thought(model, prompt_ids)
    return ThoughtReader(marks, begins_inside=begins_inside, position=len(turn.partial_text))


def opens_thought(model: ChatModel, prompt_ids: Sequence[int]) -> bool:
    """Whether a prompt ends inside a thought, so that the answer begins there."""
    tail = model.spell(prompt_ids[-TAIL_TOKENS:]).rstrip()
    return model.reasoning is not None and tail.endswith(model.reasoning.begin)


def num_suspect(text: str, mark: str) -> int:
    """How many characters at the end of `text` may be the beginning of `mark`."""
    longest = min(len(text), len(mark) - 1)
    return next((n for n in range(longest, 0, -1) if text.endswith(mark[:n])), 0)
