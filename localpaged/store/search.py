"""Finding messages by their text.

A message is found when every word of the query stands in it, as it is folded and as a part of
anything; punctuation counts. Messages that have the query's words as whole words come first, then
those where the last word goes on, each by bm25 with a user's text above an answer's; then the
newest of the others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from sqlite_utils import Database

from localpaged.store.fold import fold
from localpaged.store.overlay import Overlay
from localpaged.store.records import select_chats
from localpaged.store.rows import Chat
from localpaged.store.scope import ChatScope
from localpaged.store.search_index import num_pending, searched_text
from localpaged.store.search_places import ChatsOfMessages
from localpaged.store.snippet import Snippet, snippet_of
from localpaged.store.text import storable

MAX_HITS = 60
MAX_QUERY_CHARS = 400
MAX_TERMS = 16
# of so many messages it is looked in which chats they are, before the search gives up
MAX_CANDIDATES = 20_000
_BATCH = 64
_TRIGRAMS_OF_A_TERM = 24
_WORD_CHARS = re.compile(r"\w")
_NO_WORD_CHARS = re.compile(r"[^\w]|_")

_BY_WORDS = """
SELECT found.rowid, found.score FROM (
    SELECT rowid, bm25(search_words, 3.0, 1.0) AS score FROM search_words WHERE search_words MATCH ?
) AS found JOIN search_texts ON search_texts.id = found.rowid WHERE {literally}
ORDER BY found.score, found.rowid DESC
"""
_BY_TRIGRAMS = """
SELECT id FROM search_texts
WHERE id IN (SELECT rowid FROM search_trigrams WHERE search_trigrams MATCH ?) AND {literally}
ORDER BY id DESC
"""
_BY_SCAN = "SELECT id FROM search_texts WHERE {literally} ORDER BY id DESC"
_LITERALLY = "(instr(question, ?) OR instr(answer, ?))"
_OF_IDS = """
SELECT search_texts.id, search_texts.message_hash, messages.role,
    search_texts.question || search_texts.answer AS folded, group_concat(parts.text, '')
FROM search_texts JOIN messages ON messages.hash = search_texts.message_hash
JOIN parts ON parts.message_hash = messages.hash AND parts.type = 'text'
WHERE search_texts.id IN (SELECT value FROM json_each(?)) GROUP BY search_texts.id
"""


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message of a chat that was found; or the chat's title, then `message_hash` is None.

    `is_on_branch`: whether the message is above the chat's tip, where it is seen at once.
    """

    chat: Chat
    message_hash: str | None
    role: str
    snippet: Snippet
    is_on_branch: bool = True


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best hits first. `is_cut`: there may be more. `num_unindexed` messages were not looked
    at, as the index of an old history is still being made."""

    hits: tuple[SearchHit, ...] = ()
    is_cut: bool = False
    num_unindexed: int = 0


def search(
    db: Database, overlay: Overlay, query: str, *, scope: ChatScope, max_hits: int = MAX_HITS
) -> SearchResult:
    """Look for a text. Any text is a query; one without a visible character finds nothing.

    Chats are as they will be, texts as they are on the disk: what is not saved yet is found a
    moment later.
    """
    terms = query_terms(query)
    if not terms:
        return SearchResult()
    chats = {chat.id: chat for chat in overlay.chats(select_chats(db, "TRUE", []))}
    searched = [chat for chat in chats.values() if scope.is_searched(chat)]
    places = ChatsOfMessages(db, chats, searched)
    if not places.wanted:
        return SearchResult()
    found = _titles(places.wanted, terms)
    candidates = islice(_candidates(db, terms), MAX_CANDIDATES)
    num_candidates = 0
    while len(found) <= max_hits and (batch := list(islice(candidates, _BATCH))):
        num_candidates += len(batch)
        found += _hits(db, places, batch, terms, room=max_hits + 1 - len(found))
    return SearchResult(
        tuple(found[:max_hits]),
        is_cut=len(found) > max_hits or num_candidates == MAX_CANDIDATES,
        num_unindexed=num_pending(db),
    )


def query_terms(query: str) -> tuple[str, ...]:
    """Return what every hit has in it, folded, each once; only a long query's beginning counts."""
    return tuple(dict.fromkeys(fold(storable(query[:MAX_QUERY_CHARS])).split()))[:MAX_TERMS]


def _titles(chats: Sequence[Chat], terms: Sequence[str]) -> list[SearchHit]:
    """The chats whose titles have every term, the latest used first.

    An answer of a compare is titled with its prompt, which is found as a message.
    """
    hits = []
    titled = [chat for chat in chats if not chat.is_hidden]
    for chat in sorted(titled, key=lambda chat: (chat.updated_at, chat.id), reverse=True):
        folded = fold(chat.title)
        if all(term in folded for term in terms):
            hits.append(SearchHit(chat, None, "title", snippet_of(chat.title, folded, terms)))
    return hits


def _candidates(db: Database, terms: Sequence[str]) -> Iterator[int]:
    """Ids of the texts that have every term, the best first, each once."""
    seen: set[int] = set()
    for statement, matches, compared in _statements(terms):
        literally = " AND ".join([_LITERALLY] * len(compared)) or "TRUE"
        twice = [term for term in compared for _ in range(2)]
        for text_id, *_ in db.execute(statement.format(literally=literally), [*matches, *twice]):
            if text_id not in seen:
                seen.add(text_id)
                yield text_id


def _statements(terms: Sequence[str]) -> Iterator[tuple[str, list[str], Sequence[str]]]:
    """Each with what it matches, and the terms that must be compared with the text itself."""
    literal = [term for term in terms if _NO_WORD_CHARS.search(term)]
    if words := " AND ".join(_quoted(term) for term in terms if _has_word(term)):
        yield _BY_WORDS, [words], literal
        if len(terms[-1]) > 1 and _has_word(terms[-1][-1]):
            yield _BY_WORDS, [f"{words}*"], literal
    if trigrams := _trigram_query(terms):
        yield _BY_TRIGRAMS, [trigrams], terms
    else:
        yield _BY_SCAN, [], terms


def _trigram_query(terms: Sequence[str]) -> str:
    trigrams = [
        term[at : at + 3] for term in terms for at in range(min(len(term) - 2, _TRIGRAMS_OF_A_TERM))
    ]
    return " AND ".join(_quoted(trigram) for trigram in dict.fromkeys(trigrams))


def _has_word(text: str) -> bool:
    """Whether the index by words has anything of the text."""
    return any(_WORD_CHARS.match(c) and not _NO_WORD_CHARS.match(c) for c in text)


def _quoted(text: str) -> str:
    """A string of FTS5's query language: nothing in it means anything."""
    return '"' + text.replace('"', '""') + '"'


def _hits(
    db: Database, places: ChatsOfMessages, ids: Sequence[int], terms: Sequence[str], *, room: int
) -> list[SearchHit]:
    rows = {row[0]: row[1:] for row in db.execute(_OF_IDS, [json.dumps(ids)])}
    chats_of = places.of([row[0] for row in rows.values()])
    hits: list[SearchHit] = []
    for text_id in ids:
        if text_id in rows and len(hits) < room:
            hits += _hits_of(rows[text_id], chats_of, terms)
    return hits[:room]


def _hits_of(
    row: tuple[str, str, str, str],
    chats_of: Mapping[str, Sequence[tuple[Chat, bool]]],
    terms: Sequence[str],
) -> Iterator[SearchHit]:
    message_hash, role, folded, text = row
    if found := chats_of.get(message_hash):
        snippet = snippet_of(searched_text(role, text), folded, terms)
        for chat, is_on_branch in found:
            yield SearchHit(chat, message_hash, role, snippet, is_on_branch)
