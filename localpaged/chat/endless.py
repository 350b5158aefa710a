"""What surely does not fit a context is refused before seconds are spent on its tokens.

Whoever renders a prompt does so for all chats, and cutting a few megabytes into tokens takes half a
minute that nobody could end.
"""

from __future__ import annotations

from collections.abc import Sequence

from localpaged.abilities import abilities_of
from localpaged.errors import PromptEndless
from localpaged.prompt import ChatModel, PromptMessage

MOST_CHARS_A_TOKEN = 512
"""More than any tokenizer puts into one; so long a text has so many tokens at least."""
TRIED_CHARS_A_TOKEN = 8
"""Of a long text so many characters for each token of the context are tried: twice the usual."""
CUT_TOKENS = 64
"""A beginning may have so many tokens more than they become in front of the rest."""


def refuse_endless(messages: Sequence[PromptMessage], model: ChatModel) -> None:
    """Raise PromptEndless for messages that `model` can never read.

    What an answer said is not counted: templates leave out what was thought before it. Of an
    endpoint's model nothing is refused: its server counts.
    """
    if abilities_of(model).is_remote:
        return
    said = [message.text.strip() for message in messages if message.role != "assistant"]
    num_chars, context = sum(map(len, said)), model.context_length
    if num_chars <= TRIED_CHARS_A_TOKEN * context:
        return
    longest = max(said, key=len)
    if num_chars > MOST_CHARS_A_TOKEN * context or _begins_too_long(longest, model):
        raise PromptEndless(
            f"The prompt has {num_chars:,} characters; the model reads {context:,} tokens at most, "
            "its answer included.",
            hint="Shorten it, or start a new chat.",
        )


def _begins_too_long(text: str, model: ChatModel) -> bool:
    """Whether the beginning of a text has more tokens already than there may be."""
    beginning = text[: TRIED_CHARS_A_TOKEN * model.context_length]
    empty, begun = (len(model.render([PromptMessage("user", told)])) for told in ("", beginning))
    return begun - empty - CUT_TOKENS > model.context_length
