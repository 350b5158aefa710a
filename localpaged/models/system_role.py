"""System prompts for templates that know no system role: said at the beginning of the first turn.

Gemma 3's template does so itself; Gemma 2's refuses the role, others drop what it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localpaged.errors import ModelError
from localpaged.models.chat_template import ChatTemplate
from localpaged.prompt import PromptMessage

_PROBE = "probe of the role"


def takes_system_role(template: ChatTemplate, special_texts: dict[str, str]) -> bool:
    """Return whether a template writes what a system message says."""
    turns = [{"role": "system", "content": _PROBE}, {"role": "user", "content": "."}]
    try:
        rendered = template.render(turns, special_texts=special_texts, add_generation_prompt=True)
    except ModelError:
        return False
    return _PROBE in rendered


def in_first_turn(messages: Sequence[PromptMessage]) -> Sequence[PromptMessage]:
    """Return messages without a system prompt: the user's first turn begins with it."""
    if len(messages) < 2 or (messages[0].role, messages[1].role) != ("system", "user"):
        return messages
    system, first, *rest = messages
    return [replace(first, text=f"{system.text}\n\n{first.text}"), *rest]
