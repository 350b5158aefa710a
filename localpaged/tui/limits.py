"""What the model of a chat, or of an answer, does not let be done: asked before every action."""

from __future__ import annotations

from collections.abc import Callable

from localpaged.abilities import Abilities, Ability
from localpaged.tui.session import Answer, SessionModel

_NEEDED = {
    "tokens": Ability.TOKENS,
    "prompt_text": Ability.TOKENS,
    "why": Ability.WHY,
    "blocks": Ability.BLOCKS,
    "pin": Ability.PIN,
    "unpin": Ability.PIN,
    "context": Ability.CONTEXT,
}
# an answer of which nothing has come is asked for once more, which every model can
_RESUME = "resume"
# these look at an answer: it was made by the chat's model of then
_OF_ANSWERS = frozenset({"tokens", "prompt_text", "why"})


def why_not(
    action_id: str,
    session: SessionModel,
    answer: Answer | None,
    abilities: Callable[[str], Abilities],
) -> str:
    """Return the reason against an action; empty when it can be done."""
    model = "" if session.chat is None else session.chat.model
    if action_id == _RESUME:
        has_text = session.last_answer is not None and bool(session.last_answer.text.strip())
        return abilities(model).why_not_continue if has_text else ""
    needed = _NEEDED.get(action_id)
    if needed is None:
        return ""
    if action_id in _OF_ANSWERS and answer is not None and answer.turn.model:
        model = answer.turn.model
    return abilities(model).why_not(needed)


def is_limited(action_id: str) -> bool:
    """Whether an action needs what an endpoint lacks."""
    return action_id in _NEEDED or action_id == _RESUME
