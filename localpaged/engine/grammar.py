"""Structured output: which tokens a grammar allows next, by llguidance."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from localpaged.engine.params import Grammar
from localpaged.errors import BadParameter

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer
    from llguidance._lib import JsonCompileOptions

# One way to write a value: with free whitespace a model can write blanks for ever.
JSON_LAYOUT: JsonCompileOptions = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}

DEAD_END = "The grammar allows no token of this model here."
DEAD_END_HINT = "Loosen the grammar there, or ask without it: trying again ends at the same place."
NOTHING_FITS_HINT = "Loosen it: it describes no text at all, or none that this model can write."
_BYTES = tuple(bytes([byte]) for byte in range(256))

_PLACE = re.compile(r"(?:at )?([0-9]+)\(([0-9]+)\): ")


class Matcher:
    """Where one answer stands in its grammar. Engine thread only, once it is made.

    `allowed` has a bit for each token, least significant first; the state follows from the tokens
    taken. `is_over`: nothing but an end can follow. `error` is a limit of the parser that was met.
    """

    def __init__(self, matcher: LLMatcher, *, eos_ids: frozenset[int], eos_counts: bool) -> None:
        self._matcher = matcher
        self._eos_ids = eos_ids
        self._eos_counts = eos_counts
        self._look_ahead()

    def take(self, token_id: int) -> None:
        """Follow a token of the answer."""
        self._matcher.consume_token(token_id)
        self._look_ahead()

    def copy(self) -> Matcher:
        """Return a matcher of its own in the same state, for another branch."""
        return Matcher(
            self._matcher.deep_copy(), eos_ids=self._eos_ids, eos_counts=self._eos_counts
        )

    def _look_ahead(self) -> None:
        matcher = self._matcher
        self.error = _first_line(matcher.get_error()) if matcher.is_error() else None
        self.allowed = matcher.compute_bitmask()
        self.is_over = matcher.is_accepting() and matcher.is_stopped()
        going_on = _without(self.allowed, self._eos_ids)
        if not matcher.is_accepting():
            # Where no token of the vocabulary fits, llguidance offers the end; it would be a lie.
            self.allowed = going_on
        elif not any(going_on):
            self.is_over = True
        elif not self._eos_counts:
            self.allowed = going_on


class GrammarCompiler:
    """Makes matchers for one vocabulary. One thread; the first grammar loads llguidance."""

    def __init__(self, token_bytes: Sequence[bytes], *, eos_ids: frozenset[int]) -> None:
        self._token_bytes = token_bytes
        self._eos_ids = eos_ids
        self._tokenizer: LLTokenizer | None = None

    def compile(
        self, grammar: Grammar, *, ignores_eos: bool, begun_ids: Sequence[int] = ()
    ) -> Matcher:
        """Return a matcher in `grammar` behind `begun_ids`; raises BadParameter with what is wrong.

        With `ignores_eos` an end token is allowed only where nothing else is.
        """
        from llguidance import LLMatcher

        if self._tokenizer is None:
            self._tokenizer = self._make_tokenizer()
        matcher = LLMatcher(self._tokenizer, _compilable(grammar), log_level=0)
        if matcher.is_error():
            raise _unusable(grammar, _reason(grammar, matcher.get_error()))
        if begun_ids and not matcher.consume_tokens(list(begun_ids)):
            raise _unusable(grammar, "the answer did not begin by it")
        eos_ids = frozenset(self._tokenizer.eos_tokens)
        made = Matcher(matcher, eos_ids=eos_ids, eos_counts=not ignores_eos)
        if made.error is not None:
            raise _unusable(grammar, too_complex(made.error), hint=DEAD_END_HINT)
        if not begun_ids and not made.is_over and not any(made.allowed):
            raise _unusable(grammar, "it allows no answer", hint=NOTHING_FITS_HINT)
        return made

    def _make_tokenizer(self) -> LLTokenizer:
        from llguidance import LLTokenizer, TokenizerWrapper

        tokens = list(self._token_bytes)
        eos_ids = sorted(self._eos_ids)
        if not eos_ids:
            # llguidance wants an end: one that the model does not have and so never chooses.
            eos_ids = [len(tokens)]
            tokens.append(b"")
        for token_id in eos_ids:
            tokens[token_id] = b""
        return LLTokenizer(
            TokenizerWrapper(_TokenTable(tokens, eos_ids[0])),
            n_vocab=len(tokens),
            eos_token=eos_ids,
        )


def too_complex(error: str) -> str:
    """Return what is the matter where the parser met a limit of its own, `error`."""
    return f"is too complex to be followed: {error.rstrip('.')}"


def check(grammar: Grammar) -> None:
    """Raise BadParameter with what is wrong with a grammar; needs no model's vocabulary."""
    from llguidance import LLMatcher

    if complaint := LLMatcher.validate_grammar(_compilable(grammar)):
        raise _unusable(grammar, _reason(grammar, complaint))
    # bytes alone can write whatever a vocabulary can
    GrammarCompiler(_BYTES, eos_ids=frozenset()).compile(grammar, ignores_eos=False)


class _TokenTable:
    """A vocabulary as llguidance wants it; text is cut greedily, longest token first."""

    bos_token_id = None

    def __init__(self, tokens: Sequence[bytes], eos_token_id: int) -> None:
        self.tokens = tokens
        self.eos_token_id = eos_token_id
        self._ids = {data: token_id for token_id, data in enumerate(tokens) if data}
        self._longest = max(map(len, self._ids), default=1)

    def __call__(self, data: bytes) -> list[int]:
        ids: list[int] = []
        start = 0
        while start < len(data):
            ends = range(min(len(data), start + self._longest), start, -1)
            end = next((end for end in ends if data[start:end] in self._ids), None)
            if end is not None:
                ids.append(self._ids[data[start:end]])
            start = start + 1 if end is None else end
        return ids


def _compilable(grammar: Grammar) -> str:
    from llguidance import LLMatcher

    if grammar.kind == "regex":
        return LLMatcher.grammar_from_regex(grammar.text)
    if grammar.kind == "lark":
        return LLMatcher.grammar_from_lark(grammar.text)
    try:
        # Parsed and written again: the text ends up inside another JSON document.
        schema = json.dumps(json.loads(grammar.text), allow_nan=False)
        return LLMatcher.grammar_from_json_schema(schema, defaults=JSON_LAYOUT)
    except (ValueError, RecursionError) as error:
        raise _unusable(grammar, _first_line(str(error))) from error


def _unusable(grammar: Grammar, reason: str, *, hint: str = "") -> BadParameter:
    kind = {"json_schema": "JSON schema", "regex": "regular expression", "lark": "grammar"}
    sentence = f"The {kind[grammar.kind]} cannot be used: {reason.rstrip('.')}."
    return BadParameter(sentence, hint=hint)


def _reason(grammar: Grammar, complaint: str) -> str:
    """Return why a grammar cannot be used: parsers draw the place around what they say."""
    lines = [line.strip() for line in complaint.splitlines()]
    said = _first_line(complaint)
    place = _PLACE.match(said)
    reason = next((line for line in lines if line.startswith("error: ")), said)
    reason = reason.removeprefix("error: ").removeprefix(place[0] if place else "")
    if place is None or grammar.kind != "lark":
        return reason
    return f"{reason.rstrip('.')} (line {place[1]}, column {place[2]})"


def _first_line(text: str) -> str:
    """Return what is wrong in one line; parsers draw the place before they say the reason."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["unknown error"]
    is_announced = lines[0].endswith(":") and len(lines) > 1
    return f"{lines[0]} {lines[-1].removeprefix('error: ')}" if is_announced else lines[0]


def _without(bits: bytes, ids: Collection[int]) -> bytes:
    cleared = bytearray(bits)
    for token_id in ids:
        cleared[token_id // 8] &= ~(1 << token_id % 8) & 0xFF
    return bytes(cleared)
