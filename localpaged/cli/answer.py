"""How an answer reaches stdout: as text while it comes, or as one JSON object at the end.

What the model thinks before it answers goes to stderr, so that a pipe gets the answer alone.
Text from the model is data: a terminal sees what would act on it as marks, in JSON it is escaped.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Protocol

from localpaged.chat.cache_report import CacheCause, CacheReport
from localpaged.chat.events import TurnEnded
from localpaged.chat.thought import TextPart
from localpaged.chat.token_chances import TokenChance
from localpaged.cli.errors import error_values
from localpaged.plain_text import visible
from localpaged.store.rows import Turn, TurnStatus
from localpaged.tui.terminal import can_place_cursor

SHOWN_CHARS = 24

_SURPRISES = {
    CacheCause.TEMPLATE_CHANGED: "the chat template writes the conversation in another way",
    CacheCause.REASONING_STRIPPED: "the chat template leaves earlier reasoning out",
    CacheCause.RETOKENISED: "the same text was cut into other tokens",
    CacheCause.EVICTED: "their memory was given to something else",
}


class Answer(Protocol):
    """One answer on its way out. Main thread."""

    def begin(self, turn: Turn) -> None:
        """The question is on its way; this turn answers it."""

    def status(self, line: str) -> None:
        """Show what happens meanwhile, to be replaced by whatever comes next."""

    def note(self, line: str) -> None:
        """Tell a person at a terminal something that stays."""

    def explain(self, report: CacheReport) -> None:
        """What of the prompt was found in memory, and why not more."""

    def add(self, text: str, part: TextPart = TextPart.ANSWER) -> None:
        """More text, of the answer, of what was thought before it, or a mark between them."""

    def end(self, ended: TurnEnded | None, error: Exception | None) -> None:
        """There will be no more; both are None when it was stopped before it began."""


class StatusLine:
    """A passing line on stderr, if that is a terminal that can take it back. Main thread."""

    def __init__(self) -> None:
        self.is_on_terminal = sys.stderr.isatty()
        self._is_final = self.is_on_terminal and not can_place_cursor()
        self._is_shown = False

    def show(self, line: str) -> None:
        """Replace what is shown; an empty line takes it away."""
        if self.is_on_terminal and not self._is_final and (line or self._is_shown):
            sys.stderr.write(f"\r\x1b[K{visible(line)}")
            sys.stderr.flush()
            self._is_shown = bool(line)


class TextAnswer:
    """Prints the text as it comes, and ends it with a line feed."""

    def __init__(self) -> None:
        self._status = StatusLine()
        self._report: CacheReport | None = None
        self._thought = _ThoughtOnStderr(self._status)
        self._held = ""
        self._is_line_open = False

    def begin(self, turn: Turn) -> None:
        """See Answer."""

    def status(self, line: str) -> None:
        """See Answer."""
        if not self._is_line_open and not self._thought.is_open:
            self._status.show(line)

    def note(self, line: str) -> None:
        """See Answer."""
        if self._status.is_on_terminal and not self._is_line_open:
            self._status.show("")
            print(visible(line), file=sys.stderr)

    def explain(self, report: CacheReport) -> None:
        """See Answer."""
        self._report = report

    def add(self, text: str, part: TextPart = TextPart.ANSWER) -> None:
        """See Answer."""
        if part is TextPart.MARK:
            return
        if part is TextPart.THOUGHT:
            self._thought.add(text)
            return
        self._thought.end()
        text = self._held + text
        # One half of a Windows line end would be shown as a mark.
        self._held = "\r" if text.endswith("\r") else ""
        self._write(text.removesuffix(self._held))

    def end(self, ended: TurnEnded | None, error: Exception | None) -> None:
        """See Answer."""
        self._thought.end()
        self._write(self._held)
        self._status.show("")
        if self._is_line_open:
            sys.stdout.write("\n")
            sys.stdout.flush()
        if self._status.is_on_terminal and ended is not None and ended.usage is not None:
            usage = ended.usage
            cached = f"{usage.cached_tokens} cached + {usage.new_tokens} new"
            print(
                f"{usage.completion_tokens} tokens · {usage.decode_tokens_per_s:.0f} tok/s · "
                f"first after {usage.ttft_s:.2f} s · "
                f"prompt {cached if usage.is_cache_told else usage.prompt_tokens}",
                file=sys.stderr,
            )
            if self._report is not None and self._report.is_surprising:
                print(_surprise(self._report), file=sys.stderr)

    def _write(self, text: str) -> None:
        if text:
            self._status.show("")
            sys.stdout.write(visible(text, multiline=True))
            sys.stdout.flush()
            self._is_line_open = not text.endswith("\n")


class _ThoughtOnStderr:
    """Prints what the model thinks, dim on a terminal. Main thread.

    Invariant: while `is_open` the terminal is dim and the last line has no end yet.
    """

    _DIM, _PLAIN = "\x1b[2m", "\x1b[22m"

    def __init__(self, status: StatusLine) -> None:
        self._status = status
        self._is_dimmed = status.is_on_terminal
        self._held = ""
        self.is_open = False

    def add(self, text: str) -> None:
        """Print more of it."""
        if not self.is_open:
            text = text.lstrip()
            if not text:
                return
            self._status.show("")
            self.is_open = True
            sys.stderr.write(self._DIM if self._is_dimmed else "")
        # white space at the end is printed when something follows
        text = self._held + text
        words = text.rstrip()
        self._held = text[len(words) :]
        sys.stderr.write(visible(words, multiline=True))
        sys.stderr.flush()

    def end(self) -> None:
        """There is no more of it: leave an empty line before the answer."""
        if self.is_open:
            self.is_open, self._held = False, ""
            sys.stderr.write(f"{self._PLAIN if self._is_dimmed else ''}\n\n")
            sys.stderr.flush()


class JsonAnswer:
    """Prints one object, whatever happens; all its keys are always there."""

    def __init__(self) -> None:
        self._status = StatusLine()
        self._turn: Turn | None = None
        self._pieces: dict[TextPart, list[str]] = {part: [] for part in TextPart}

    def begin(self, turn: Turn) -> None:
        """See Answer."""
        self._turn = turn

    def status(self, line: str) -> None:
        """See Answer."""
        self._status.show(line)

    def note(self, line: str) -> None:
        """See Answer."""

    def explain(self, report: CacheReport) -> None:
        """See Answer."""

    def add(self, text: str, part: TextPart = TextPart.ANSWER) -> None:
        """See Answer."""
        self._pieces[part].append(text)

    def end(self, ended: TurnEnded | None, error: Exception | None) -> None:
        """See Answer."""
        self._status.show("")
        turn = self._turn
        reasoning = "".join(self._pieces[TextPart.THOUGHT]).strip()
        answer = {
            "chat_id": None if turn is None else turn.chat_id,
            "turn_id": None if turn is None else turn.id,
            "text": "".join(self._pieces[TextPart.ANSWER]),
            "reasoning": reasoning or None,
            "status": _status(ended, error).value,
            "finish_reason": None,
            "seed": None if turn is None else turn.seed,
            "usage": None,
            "logprobs": _logprob_values(ended),
            "error": None if error is None else error_values(error),
        }
        if ended is not None and ended.finish_reason is not None:
            answer["finish_reason"] = ended.finish_reason.value
        if ended is not None and ended.usage is not None:
            answer["usage"] = {
                "prompt_tokens": ended.usage.prompt_tokens,
                "cached_tokens": ended.usage.cached_tokens if ended.usage.is_cache_told else None,
                "completion_tokens": ended.usage.completion_tokens,
                "load_s": round(ended.usage.load_s, 4),
                "ttft_s": round(ended.usage.ttft_s, 4),
                "decode_tokens_per_s": round(ended.usage.decode_tokens_per_s, 2),
            }
        # ASCII only: what acts on a terminal stays an escape, and any reader gets the exact text
        print(json.dumps(answer))
        sys.stdout.flush()


def _logprob_values(ended: TurnEnded | None) -> list[dict[str, Any]] | None:
    if ended is None or not ended.chances:
        return None
    return [
        {**_chance_values(chance), "alternatives": [*map(_chance_values, chance.alternatives)]}
        for chance in ended.chances
    ]


def _chance_values(chance: TokenChance) -> dict[str, Any]:
    return {
        "token_id": chance.token_id,
        "token": chance.text,
        "logprob": round(chance.logprob, 6),
    }


def _surprise(report: CacheReport) -> str:
    line = (
        f"not cached: {report.recomputed_tokens:,} of {report.prompt_tokens:,} prompt tokens, "
        f"because {_SURPRISES[report.cause]}"
    )
    if report.parting is None:
        return line
    old, new = (text[:SHOWN_CHARS] for text in (report.parting.old_text, report.parting.new_text))
    return f"{line} (“{visible(old)}” is now “{visible(new)}”)"


def _status(ended: TurnEnded | None, error: Exception | None) -> TurnStatus:
    if ended is not None:
        return ended.status
    return TurnStatus.STOPPED if error is None else TurnStatus.ERROR
