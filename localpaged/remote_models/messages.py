"""What an endpoint is sent of a chat, and what its pieces are as text of an answer."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from localpaged.engine.params import Request, SamplingParams
from localpaged.errors import BadParameter, ChatError
from localpaged.plain_text import visible
from localpaged.prompt import PromptMessage
from localpaged.remote_models.model import DONE_HERE, MARKS

SAMPLED = tuple(f.name for f in fields(SamplingParams) if f.name not in DONE_HERE)


def as_messages(request: Request) -> list[dict[str, str]]:
    """Return messages as the API has them; what was thought for earlier answers is left out.

    Raises ChatError for an answer that is to go on in the middle of what was thought.
    """
    messages = request.messages
    if request.is_continuation and _is_thinking(messages[-1].text):
        raise ChatError(
            "The answer was cut off while it was thinking; an endpoint cannot continue there.",
            hint="Regenerate it.",
        )
    return [{"role": m.role, "content": _without_thought(m)} for m in messages]


def sampling_values(request: Request) -> dict[str, Any]:
    """Return a request's sampling by our names. Raises BadParameter for what is never sent."""
    if request.num_samples != 1 or request.beam is not None or request.prompt_logprobs is not None:
        raise BadParameter(
            f"{visible(request.model)} is an endpoint: it is asked for one answer at a time, "
            "without beams and without log probabilities of the prompt."
        )
    sampling = request.sampling
    values = {name: getattr(sampling, name) for name in SAMPLED}
    grammar = sampling.grammar
    values["grammar"] = None if grammar is None else (grammar.kind, grammar.text)
    return values


class AnswerText:
    """Puts reasoning and answer into one text, with marks around the reasoning.

    Invariant: `_is_thinking` as long as the first mark is written and the second is not.
    """

    def __init__(self, *, has_begun: bool = False) -> None:
        """`has_begun`: it goes on behind an answer's text."""
        self._is_thinking = False
        self._has_text = has_begun

    def add(self, text: str, thought: str) -> str:
        """Return what the answer gets by one piece."""
        added = ""
        if thought and not self._has_text:
            added, self._is_thinking = MARKS.begin, True
        # what is thought between two parts of an answer is a part of it
        added += thought
        if text:
            if self._is_thinking:
                added, self._is_thinking = f"{added}{MARKS.end}\n\n", False
            added += text
        self._has_text = self._has_text or bool(added)
        return added


def _is_thinking(text: str) -> bool:
    return text.lstrip().startswith(MARKS.begin) and MARKS.end not in text


def _without_thought(message: PromptMessage) -> str:
    text = message.text
    if message.role != "assistant" or not text.lstrip().startswith(MARKS.begin):
        return text
    _, end, after = text.partition(MARKS.end)
    return after.lstrip() if end else ""
