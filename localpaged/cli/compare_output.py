"""How compared answers reach stdout: each below a line that names it, in columns, or as JSON.

Text from the model is data: a terminal sees what would act on it as marks, in JSON it is escaped.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Protocol

from localpaged.chat.differences import first_difference
from localpaged.chat.events import TurnEnded
from localpaged.chat.thought import TextPart
from localpaged.cli.answer import StatusLine
from localpaged.cli.errors import error_values
from localpaged.plain_text import visible
from localpaged.store.rows import Turn, TurnStatus

MIN_COLUMN_CELLS = 40
GAP_CELLS = 3


@dataclass(slots=True)
class Compared:
    """One answer of a compare as it comes. `turn` is its row, at the end with its token ids."""

    number: int
    model: str
    turn: Turn
    pieces: dict[TextPart, list[str]] = field(default_factory=lambda: {p: [] for p in TextPart})
    ended: TurnEnded | None = None
    shared_blocks: int = 0

    @property
    def text(self) -> str:
        """All there is of the answer."""
        return "".join(self.pieces[TextPart.ANSWER])

    @property
    def temperature(self) -> float | None:
        """What it was sampled with."""
        value = json.loads(self.turn.options).get("temperature")
        return None if value is None else float(value)

    @property
    def heading(self) -> str:
        """Its number, its model, and what made it what it is."""
        parts = [f"{self.number} {self.model}"]
        if self.temperature is not None:
            parts.append(f"t={self.temperature:g}")
        return " ".join([*parts, f"seed={self.turn.seed}"])


class Output(Protocol):
    """Where compared answers go. Main thread."""

    def status(self, line: str) -> None:
        """Show what happens meanwhile, to be replaced by whatever comes next."""

    def ended(self, answer: Compared) -> None:
        """An answer is over."""

    def end(self, answers: Sequence[Compared], error: Exception | None, compare_id: str) -> None:
        """There will be no more."""


class TextOutput:
    """Prints answers in their order, each once it and all before it are complete.

    A line above an answer names it.

    On a terminal with room they stand side by side instead, when all are complete.
    """

    def __init__(self) -> None:
        self._status = StatusLine()
        self._may_use_columns = sys.stdout.isatty() and _num_columns() > 1
        self._printed: set[int] = set()
        self._waiting: dict[int, Compared] = {}

    def status(self, line: str) -> None:
        """See Output."""
        self._status.show(line)

    def ended(self, answer: Compared) -> None:
        """See Output."""
        if self._may_use_columns:
            return
        self._waiting[answer.number] = answer
        while (due := self._waiting.pop(len(self._printed) + 1, None)) is not None:
            self._print(due)

    def end(self, answers: Sequence[Compared], error: Exception | None, compare_id: str) -> None:
        """See Output."""
        self._status.show("")
        if self._may_use_columns and len(answers) > 1:
            per_row = max(1, _num_columns())
            for start in range(0, len(answers), per_row):
                _print_columns(answers[start : start + per_row])
        else:
            for answer in answers:
                self._print(answer)
        sys.stdout.flush()
        if self._status.is_on_terminal and answers:
            print(_bill(answers), file=sys.stderr)

    def _print(self, answer: Compared) -> None:
        if answer.number in self._printed:
            return
        self._status.show("")
        print(f"{'' if not self._printed else chr(10)}== {visible(answer.heading)} ==")
        self._printed.add(answer.number)
        print(visible(answer.text, multiline=True).strip("\n"))
        if (note := _note(answer)) is not None:
            print(f"-- {note}")
        sys.stdout.flush()


class JsonOutput:
    """Prints one object, whatever happens; all its keys are always there."""

    def __init__(self) -> None:
        self._status = StatusLine()

    def status(self, line: str) -> None:
        """See Output."""
        self._status.show(line)

    def ended(self, answer: Compared) -> None:
        """See Output."""

    def end(self, answers: Sequence[Compared], error: Exception | None, compare_id: str) -> None:
        """See Output."""
        self._status.show("")
        usages = [a.ended.usage for a in answers if a.ended is not None and a.ended.usage]
        compared = {
            "compare_id": compare_id or None,
            "prompt_tokens": usages[0].prompt_tokens if usages else None,
            "cached_tokens": sum(usage.cached_tokens for usage in usages),
            "computed_tokens": sum(usage.new_tokens for usage in usages),
            "branches": [_branch_values(answer) for answer in answers],
            "first_differences": _differences(answers),
            "error": None if error is None else error_values(error),
        }
        # ASCII only: what acts on a terminal stays an escape, and any reader gets the exact text
        print(json.dumps(compared))
        sys.stdout.flush()


def _branch_values(answer: Compared) -> dict[str, Any]:
    ended = answer.ended
    usage = None if ended is None else ended.usage
    reasoning = "".join(answer.pieces[TextPart.THOUGHT]).strip()
    reason = None if ended is None or ended.finish_reason is None else ended.finish_reason.value
    return {
        "chat_id": answer.turn.chat_id,
        "turn_id": answer.turn.id,
        "model": answer.model,
        "temperature": answer.temperature,
        "seed": answer.turn.seed,
        "text": answer.text,
        "reasoning": reasoning or None,
        "status": (TurnStatus.STOPPED if ended is None else ended.status).value,
        "finish_reason": reason,
        "usage": None
        if usage is None
        else {
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens if usage.is_cache_told else None,
            "completion_tokens": usage.completion_tokens,
            "load_s": round(usage.load_s, 4),
            "ttft_s": round(usage.ttft_s, 4),
            "decode_tokens_per_s": round(usage.decode_tokens_per_s, 2),
        },
        "shared_blocks": answer.shared_blocks,
        "error": None if ended is None or ended.error is None else error_values(ended.error),
    }


def _differences(answers: Sequence[Compared]) -> list[dict[str, Any]]:
    """Where each answer parts from the first one; null where it does not."""
    values = []
    for other in answers[1:]:
        turns = (answers[0].turn, other.turn)
        first = first_difference(answers[0].text, other.text, turns=turns)
        values.append(
            {
                "branches": [0, other.number - 1],
                "char": None if first is None else first.num_chars,
                "word": None if first is None else first.num_words,
                "token": None if first is None else first.num_tokens,
            }
        )
    return values


def _note(answer: Compared) -> str | None:
    """What is to be said of an answer that is not complete."""
    if answer.ended is None or answer.ended.status is TurnStatus.STOPPED:
        return "stopped"
    if answer.ended.error is not None:
        return f"failed: {visible(answer.ended.error.message)}"
    return None


def _num_columns() -> int:
    """How many answers have room side by side."""
    width = shutil.get_terminal_size().columns
    return (width + GAP_CELLS) // (MIN_COLUMN_CELLS + GAP_CELLS)


def _print_columns(answers: Sequence[Compared]) -> None:
    from localpaged.tui.markdown.line import Run
    from localpaged.tui.markdown.wrap import wrap_runs
    from localpaged.tui.paint import cells_of

    is_unicode = sys.stdout.encoding.lower().startswith("utf")
    gap, rule = (" │ ", "─") if is_unicode else (" | ", "-")
    width = shutil.get_terminal_size().columns
    cells = (width - GAP_CELLS * (len(answers) - 1)) // len(answers)
    columns = []
    for answer in answers:
        note = _note(answer)
        shown = visible(answer.text, multiline=True).strip("\n").expandtabs(4)
        texts = [visible(answer.heading), rule * cells, shown, *([f"-- {note}"] if note else [])]
        lines = [line for text in texts for line in wrap_runs([Run(text)], cells)]
        columns.append([line.plain for line in lines])
    for row in zip_longest(*columns, fillvalue=""):
        padded = [text + " " * (cells - cells_of([Run(text)])) for text in row]
        print(gap.join(padded).rstrip())
    print()


def _bill(answers: Sequence[Compared]) -> str:
    usages = [a.ended.usage for a in answers if a.ended is not None and a.ended.usage]
    cached, new = sum(u.cached_tokens for u in usages), sum(u.new_tokens for u in usages)
    tokens = sum(u.completion_tokens for u in usages)
    return (
        f"{len(answers)} answers, {tokens:,} tokens · prompt {cached:,} cached + {new:,} new · "
        "/compares in `localpaged chat` goes on with them"
    )
