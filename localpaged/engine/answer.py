"""Answer: what the engine remembers of a sequence besides its tokens: text, times, the bill."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass

from localpaged.engine.detokenizer import Detokenizer
from localpaged.engine.events import Usage
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.latency import Wait
from localpaged.engine.sequence import Sequence


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the engine needs to know of a tokenizer.

    `token_bytes[i]` are the bytes that token i stands for, empty for control tokens; there are as
    many as the model has logits. `eos_ids` end an answer. With `strips_first_space` the tokenizer
    puts a space before a text, which is no part of an answer that begins one.
    """

    token_bytes: Seq[bytes]
    eos_ids: frozenset[int]
    strips_first_space: bool = False


class Answer:
    """One sequence's way from tokens to text. Engine thread only; times of one monotonic clock.

    Invariant: what it waited for its model to load, `load_s`, was over at `submitted_s`.
    """

    def __init__(
        self,
        sequence: Sequence,
        vocabulary: Vocabulary,
        *,
        submitted_s: float,
        load_s: float = 0.0,
    ) -> None:
        self.sequence = sequence
        self._vocabulary = vocabulary
        request = sequence.request
        self._detokenizer = Detokenizer(
            vocabulary.token_bytes,
            stop=request.sampling.stop,
            # A grammar counts every byte; a space that it allowed is part of the answer.
            strips_first_space=vocabulary.strips_first_space
            and not request.is_continuation
            and request.sampling.grammar is None,
        )
        if request.is_continuation:
            self._detokenizer.go_on(request.prompt_ids)
        self._submitted_s = submitted_s
        self._load_s = load_s
        self._first_token_s: float | None = None
        self._last_token_s = submitted_s
        self.is_over = False

    def push(
        self, token_id: int, *, now_s: float, context_length: int
    ) -> tuple[str, FinishReason | None]:
        """Take the sampled token; return the text that is certain and, at the end, why."""
        self.note_token(now_s)
        sampling = self.sequence.request.sampling
        if token_id in self.sequence.end_ids:
            return self._detokenizer.finish(), FinishReason.STOP
        text = self._detokenizer.push(token_id)
        matcher = self.sequence.matcher
        if matcher is not None and matcher.is_over:
            return text + self._detokenizer.finish(), FinishReason.STOP
        if self._detokenizer.is_stopped:
            return text, FinishReason.STOP
        is_full = len(self.sequence.tokens) >= context_length
        if is_full or self.sequence.num_generated == sampling.max_tokens:
            text += self._detokenizer.finish()
            is_stopped = self._detokenizer.is_stopped
            return text, FinishReason.STOP if is_stopped else FinishReason.LENGTH
        return text, None

    def wait(self, now_s: float) -> Wait:
        """Return how long its reader has waited for what comes now."""
        return Wait(now_s - self._last_token_s, is_first=self._first_token_s is None)

    def note_token(self, now_s: float) -> None:
        """Take the time of a token."""
        if self._first_token_s is None:
            self._first_token_s = now_s
        self._last_token_s = now_s

    def branch_off(self, sequence: Sequence) -> Answer:
        """Return the answer of a sequence that was forked before its first token."""
        return Answer(
            sequence, self._vocabulary, submitted_s=self._submitted_s, load_s=self._load_s
        )

    def text_of(self, token_ids: tuple[int, ...]) -> str:
        """Return the text of a whole answer that was not pushed token by token."""
        fresh = self.branch_off(self.sequence)
        pieces = [fresh._detokenizer.push(token_id) for token_id in token_ids]
        return "".join(pieces) + fresh.finish_text()

    def finish_text(self) -> str:
        """Return what was held back when the answer is ended from outside."""
        return self._detokenizer.finish()

    def usage(self, *, num_tokens: int | None = None) -> Usage:
        """Return the bill so far; of `num_tokens` tokens where they are not the sequence's own."""
        first = self._first_token_s
        return Usage(
            prompt_tokens=self.sequence.num_prompt,
            cached_tokens=self.sequence.num_cached_at_start or 0,
            completion_tokens=self.sequence.num_generated if num_tokens is None else num_tokens,
            ttft_s=0.0 if first is None else first - self._submitted_s,
            decode_s=0.0 if first is None else self._last_token_s - first,
            load_s=self._load_s,
        )
