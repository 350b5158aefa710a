"""Puts the ids that answers were made of back into a prompt, wherever the template keeps the text.

An answer's ids are what the model sampled, and what its KV was computed for. The tokenizer might
cut the same text otherwise; then nothing from there on would be found in the prefix tree.
A template is asked twice: with the texts, and with a mark in place of each known answer. The ids
go where the marks are if the two differ in nothing else.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache

from localpaged.errors import ModelError

Render = Callable[[Sequence[str]], str]


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """The ids for the beginning of a message's text, and the `rest` that has none.

    `has_first_space`: the ids begin with the space that SentencePiece puts before a text, which
    is no part of the text.
    """

    ids: tuple[int, ...]
    rest: str = ""
    has_first_space: bool = False


def known_answer(
    token_ids: Sequence[int],
    text: str,
    *,
    token_bytes: Sequence[bytes],
    hidden_ids: Collection[int],
    strips_first_space: bool,
) -> KnownAnswer | None:
    """Return as many of the ids as spell the beginning of `text`; None when none does.

    Control tokens end them: what the model sampled can no more forge a turn than a text can.
    """
    ids = _without_controls(token_ids, len(token_bytes), hidden_ids)
    spelled = [token_bytes[id_] for id_ in ids]
    first = next((spelling for spelling in spelled if spelling), b"")
    has_first_space = strips_first_space and first.startswith(b" ")
    data = b"".join(spelled)[has_first_space:]
    if not text or not data:
        return None
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    # An answer that was cut inside a character ends before it.
    told = decoder.decode(data)
    whole = told + decoder.decode(b"", final=True)
    for spelling in (told, whole):
        # As in a stored text, where no NUL can be.
        if text in (spelling, spelling.replace("\0", "\N{REPLACEMENT CHARACTER}")):
            return KnownAnswer(ids, has_first_space=has_first_space)
    return _beginning(ids, spelled, text, has_first_space=has_first_space)


def find_kept(
    answers: Collection[int],
    contents: Sequence[str],
    *,
    mark: str,
    rests: Sequence[str],
    render: Render,
) -> tuple[str, tuple[int, ...]]:
    """Return the rendering with a mark for each answer whose text the template keeps, and these.

    `answers` are indexes of `contents`; `rests[i]` is what stays behind the mark of message i.
    """
    plain = render(contents)

    @cache
    def marked(group: tuple[int, ...]) -> str:
        return render([mark + rests[i] if i in group else text for i, text in enumerate(contents)])

    def is_kept(group: tuple[int, ...]) -> bool:
        try:
            pieces = marked(group).split(mark)
        except ModelError:  # the template wants to see the text itself
            return False
        if len(pieces) != len(group) + 1:
            return False
        known = (contents[i].removesuffix(rests[i]) for i in group)
        return plain == pieces[0] + "".join(
            text + piece for text, piece in zip(known, pieces[1:], strict=True)
        )

    def kept_of(group: tuple[int, ...]) -> tuple[int, ...]:
        if not group or is_kept(group):
            return group
        half = len(group) // 2
        return (*kept_of(group[:half]), *kept_of(group[half:])) if half else ()

    kept = kept_of(tuple(i for i in sorted(answers) if contents[i] in plain))
    if not kept or not is_kept(kept):
        return plain, ()
    return marked(kept), kept


def _without_controls(
    token_ids: Sequence[int], vocab_size: int, hidden_ids: Collection[int]
) -> tuple[int, ...]:
    for position, id_ in enumerate(token_ids):
        if id_ in hidden_ids or not 0 <= id_ < vocab_size:
            return tuple(token_ids[:position])
    return tuple(token_ids)


def _beginning(
    ids: tuple[int, ...], spelled: Sequence[bytes], text: str, *, has_first_space: bool
) -> KnownAnswer | None:
    wanted = b" " * has_first_space + text.encode("utf-8", "surrogatepass")
    offset = num_covered = end = 0
    for position, spelling in enumerate(spelled):
        if not wanted.startswith(spelling, offset):
            break
        offset += len(spelling)
        is_between_characters = offset == len(wanted) or wanted[offset] & 0xC0 != 0x80
        if is_between_characters:
            num_covered, end = position + 1, offset
    if not num_covered or end <= has_first_space:
        return None
    rest = wanted[end:].decode("utf-8", "surrogatepass")
    return KnownAnswer(ids[:num_covered], rest, has_first_space)
