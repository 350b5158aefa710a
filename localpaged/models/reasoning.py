"""How a model marks what it thinks aloud: read from its template and its tokenizer."""

from __future__ import annotations

from dataclasses import replace

from localpaged.models.tokenizer_data import TokenizerData
from localpaged.prompt import ReasoningMarks

# Qwen3 and DeepSeek-R1, Magistral, Seed-OSS, Kimi, and what fine-tunes of others chose
_KNOWN = (
    ReasoningMarks("<think>", "</think>"),
    ReasoningMarks("[THINK]", "[/THINK]"),
    ReasoningMarks("<seed:think>", "</seed:think>"),
    ReasoningMarks("◁think▷", "◁/think▷"),
    ReasoningMarks("<thinking>", "</thinking>"),
    ReasoningMarks("<thought>", "</thought>"),
    ReasoningMarks("<reasoning>", "</reasoning>"),
)


def marks_of(data: TokenizerData) -> ReasoningMarks | None:
    """Return the marks that the template writes or cuts at, else those that are tokens."""
    template = data.chat_template or ""
    tokens = {control.text for control in data.controls}
    for marks in _KNOWN:
        if marks.end in template:
            return marks
    for marks in _KNOWN:
        if tokens >= {marks.begin, marks.end}:
            return marks
    return None


def with_visible_marks(data: TokenizerData, marks: ReasoningMarks | None) -> TokenizerData:
    """Return `data` with marks that have a text in an answer, where they were hidden tokens.

    Without their text nobody could tell later where the reasoning ends.
    """
    if marks is None:
        return data
    texts = (marks.begin, marks.end)
    controls = tuple(
        replace(control, is_hidden=False) if control.text in texts else control
        for control in data.controls
    )
    return replace(data, controls=controls)
