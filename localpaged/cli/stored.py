"""The history as commands use it: opened, chats found by the beginning of an id, changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any

import click

from localpaged.plain_text import visible

if TYPE_CHECKING:
    from localpaged.store.rows import Chat
    from localpaged.store.scope import ChatScope
    from localpaged.store.store import Store

SHORT_ID_CHARS = 10
EVERY_SCOPE = ("all", "deleted", "compared")
"""Scopes that have each chat once."""


@contextmanager
def open_store() -> Iterator[Store]:
    """The user's history while the block runs. Raises StoreError, also for what stays unsaved."""
    with without_numpy():
        from localpaged.store.store import Store

    store = Store.open()
    try:
        yield store
    finally:
        failure = store.close()
    if failure is not None:
        raise failure


def find_chat(store: Store, prefix: str) -> Chat:
    """The chat whose id begins like that. Raises NotInHistory and ConfigError."""
    from localpaged.errors import ConfigError, NotInHistory

    every = [chat for name in EVERY_SCOPE for chat in store.chats(scope_of(name))]
    found = [chat for chat in every if prefix and chat.id.startswith(prefix.lower())]
    exact = [chat for chat in found if chat.id == prefix.lower()]
    if exact or len(found) == 1:
        return (exact or found)[0]
    if not found:
        raise NotInHistory(
            f"There is no chat {prefix!r}.", hint="`localpaged history list` lists them."
        )
    raise ConfigError(
        f"{len(found)} chats begin with {prefix!r}.", hint="Give more characters of the id."
    )


def change(store: Store, chat: Chat, **columns: Any) -> None:
    """Change columns of a chat, and wait until it is durable. Raises StoreError."""
    from localpaged.chat.portable.importing import save
    from localpaged.store.writes import Write, change_chat

    save(store, Write(chat_changes=(change_chat(chat.id, **columns),)))


def refuse_answering(store: Store, chat: Chat) -> None:
    """Raise ChatError when another program answers in the chat."""
    from localpaged.chat.errors import answered_elsewhere

    if store.is_answered_elsewhere(chat.id):
        raise answered_elsewhere(chat, hint="Stop it there, or wait for its end.")


def scope_of(name: str) -> ChatScope:
    """The scope of that name."""
    from localpaged.store.scope import ChatScope

    return ChatScope(name)


def title_of(chat: Chat) -> str:
    """What a list shows."""
    return visible(chat.title) or "New chat"


def short_ids(store: Store) -> dict[str, str]:
    """As much of each chat's id as tells it from all others."""
    ids = sorted(chat.id for name in EVERY_SCOPE for chat in store.chats(scope_of(name)))
    lengths = dict.fromkeys(ids, SHORT_ID_CHARS)
    for one, other in pairwise(ids):
        length = 1 + sum(1 for _ in takewhile(_are_equal, zip(one, other, strict=False)))
        lengths[one], lengths[other] = max(lengths[one], length), max(lengths[other], length)
    return {id_: id_[:length] for id_, length in lengths.items()}


def print_json(value: Any) -> None:
    """Write JSON to stdout."""
    # ASCII only: what acts on a terminal stays an escape, and any reader gets the exact text
    click.echo(json.dumps(value, indent=2))


def without_numpy() -> AbstractContextManager[None]:
    """Let the block import the store without numpy.

    sqlite-utils loads it, if it can, to know its numbers; there are none of them here.
    """
    return _without("numpy")


@contextmanager
def _without(module: str) -> Iterator[None]:
    """Let imports in the block go without a module that takes long to load.

    Only where no other thread imports anything.
    """
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


def _are_equal(characters: tuple[str, str]) -> bool:
    return characters[0] == characters[1]
