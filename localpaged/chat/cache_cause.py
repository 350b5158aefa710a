"""Finds out where a prompt parts from what was computed before, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from localpaged.chat.cache_report import CacheCause, CacheReport, Parting
from localpaged.engine.params import BLOCK_SIZE_TOKENS
from localpaged.prompt import ChatModel
from localpaged.store.rows import Message

MAX_TEXT_CHARS = 80
_SHOWN_TOKENS = 24
_CONTEXT_TOKENS = 4  # a token may be a part of a character; no character has more
_REASONING_ENDS = ("</think>", "</thinking>", "</thought>", "</reasoning>", "[/THINK]")


@dataclass(frozen=True, slots=True)
class Computed:
    """What the engine read and wrote for a chat before, and the messages that it was.

    The first `num_computed` of `ids` had KV. The answer begins at `answer_start`, None when that
    is not known. `messages` end with the answer; `path` has those, too, that are not sent any
    more. `is_this_run`: in the memory of this process.
    """

    ids: tuple[int, ...]
    num_computed: int
    answer_start: int | None
    messages: Sequence[Message]
    namespace: str
    is_this_run: bool
    path: Sequence[Message] = ()


def explain(
    prompt_ids: tuple[int, ...],
    messages: Sequence[Message],
    *,
    matched_tokens: int,
    before: Computed | None,
    namespace: str,
    model: ChatModel,
) -> CacheReport:
    """Return why the engine found `matched_tokens` of a prompt and not more."""
    if before is None:
        return CacheReport(CacheCause.FIRST_TURN, len(prompt_ids), matched_tokens)
    if before.namespace != namespace:
        return CacheReport(CacheCause.OTHER_NAMESPACE, len(prompt_ids), matched_tokens)
    agreed = num_common(before.ids[: before.num_computed], prompt_ids)
    cause = None
    if agreed < min(before.num_computed, len(prompt_ids)):
        cause = _cause_of_parting(agreed, prompt_ids, messages, before, model)
    return CacheReport(
        cause or _cause_of_loss(agreed, len(prompt_ids), matched_tokens, before),
        len(prompt_ids),
        matched_tokens,
        agreed,
        None if cause is None else _parting(agreed, before.ids, prompt_ids, model),
    )


def num_common(left: Sequence[object], right: Sequence[object]) -> int:
    """Return how many ids, or characters, two sequences begin with in common."""
    shorter = min(len(left), len(right))
    if left[:shorter] == right[:shorter]:
        return shorter
    pairs = zip(left, right, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _cause_of_loss(
    agreed: int, prompt_tokens: int, matched_tokens: int, before: Computed
) -> CacheCause:
    """Tell whether the engine should have found more. It keeps whole blocks, and a prompt's last
    token is always computed."""
    kept = before.num_computed - before.num_computed % BLOCK_SIZE_TOKENS
    if matched_tokens + BLOCK_SIZE_TOKENS > min(agreed, kept, prompt_tokens - 1):
        return CacheCause.NOTHING
    return CacheCause.EVICTED if before.is_this_run else CacheCause.RESTARTED


def _cause_of_parting(
    agreed: int,
    prompt_ids: tuple[int, ...],
    messages: Sequence[Message],
    before: Computed,
    model: ChatModel,
) -> CacheCause | None:
    """Return why the ids part; None when what was computed beyond belongs to no message."""
    if _system_texts(messages) != _system_texts(before.messages):
        return CacheCause.TEMPLATE_CHANGED
    if _has_view_moved(messages, before, model):
        return CacheCause.VIEW_MOVED
    if any(old.hash != new.hash for old, new in zip(before.messages, messages, strict=False)):
        return CacheCause.EDITED
    if _is_behind_answer(agreed, before, model):
        return None
    if _has_same_text(agreed, before.ids, prompt_ids, model):
        return CacheCause.RETOKENISED
    if _is_reasoning_gone(before.messages, model.spell(prompt_ids)):
        return CacheCause.REASONING_STRIPPED
    return CacheCause.TEMPLATE_CHANGED


def _system_texts(messages: Sequence[Message]) -> Sequence[str]:
    return [message.text for message in takewhile(lambda m: m.role == "system", messages)]


def _has_view_moved(messages: Sequence[Message], before: Computed, model: ChatModel) -> bool:
    """Whether what was read has messages that are hidden now, or lacks the first that is not."""
    first = next((message for message in messages if message.role != "system"), None)
    path = [message for message in before.path if message.role != "system"]
    if first is None or not path:
        return False
    spelled = model.spell(before.ids)
    if first.parent_hash in {message.hash for message in path}:
        is_sent = {message.hash for message in messages}
        hidden = (message.text.strip() for message in path if message.hash not in is_sent)
        return any(text and text in spelled for text in hidden)
    # the newest question was read and the first was not: a template that changes texts has both
    newest = [message.text.strip() for message in path if message.role == "user"][-1:]
    is_newest_there = all(text in spelled for text in newest)
    is_known = first.hash in {message.hash for message in path}
    return is_known and is_newest_there and first.text.strip() not in spelled


def _is_behind_answer(agreed: int, before: Computed, model: ChatModel) -> bool:
    """Whether the text of the answer ends there: a stop string was computed, but is not sent."""
    if before.answer_start is None or agreed < before.answer_start:
        return False
    answer = before.messages[-1].text
    known = model.spell(before.ids[before.answer_start : agreed])
    token = model.spell(before.ids[agreed : agreed + 1])
    # SentencePiece begins answers with a space that is no part of their text.
    for spelled in (known, known.removeprefix(" ")):
        if spelled.startswith(answer):
            return True
        rest = answer[len(spelled) :]
        if answer.startswith(spelled) and token.startswith(rest) and token != rest:
            return True
    return False


def _has_same_text(
    agreed: int, old_ids: tuple[int, ...], new_ids: tuple[int, ...], model: ChatModel
) -> bool:
    """Whether the first tokens that differ are parts of one text."""
    start = max(0, agreed - _CONTEXT_TOKENS)
    old, new = (model.spell(ids[start : agreed + _SHOWN_TOKENS]) for ids in (old_ids, new_ids))
    first = (model.spell(ids[start : agreed + 1]) for ids in (old_ids, new_ids))
    return num_common(old, new) >= max(map(len, first))


def _is_reasoning_gone(messages: Sequence[Message], spelled_prompt: str) -> bool:
    return any(
        message.role == "assistant"
        and any(end in message.text for end in _REASONING_ENDS)
        and message.text not in spelled_prompt
        for message in messages
    )


def _parting(
    agreed: int, old_ids: tuple[int, ...], new_ids: tuple[int, ...], model: ChatModel
) -> Parting:
    common = new_ids[max(0, agreed - _SHOWN_TOKENS) : agreed]
    old, new = (ids[agreed : agreed + _SHOWN_TOKENS] for ids in (old_ids, new_ids))
    return Parting(
        agreed,
        model.spell(common)[-MAX_TEXT_CHARS:],
        model.spell(old)[:MAX_TEXT_CHARS],
        model.spell(new)[:MAX_TEXT_CHARS],
    )
