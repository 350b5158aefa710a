"""`localpaged history`: list, search, show, export, import, rename, archive and remove chats.

Works while the chat is open in another terminal. Data goes to stdout, the rest to stderr. Titles
and texts are untrusted: they are printed through `visible`, into JSON and files exactly.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from localpaged.cli.completing import complete_chats
from localpaged.cli.stored import (
    change,
    find_chat,
    open_store,
    print_json,
    refuse_answering,
    scope_of,
    short_ids,
    title_of,
)
from localpaged.cli.text import TEXT
from localpaged.cli.transfer import export, import_chats
from localpaged.plain_text import visible

if TYPE_CHECKING:
    from localpaged.store.rows import Chat
    from localpaged.store.search import SearchHit

SCOPES = ("all", "listed", "archived", "deleted", "compared")

several_chats = click.argument(
    "chats", nargs=-1, required=True, metavar="CHAT...", shell_complete=complete_chats
)
as_json = click.option("--json", "is_json", is_flag=True, help="Print JSON.")
in_scope = click.option(
    "--in",
    "scope",
    type=click.Choice(SCOPES),
    default="all",
    help="Which chats; deleted ones are kept for 30 days, compared ones are answers of a compare.",
)


@click.group(invoke_without_command=True)
@click.pass_context
def history(ctx: click.Context) -> None:
    """List, search, export, import and tidy chats.

    CHAT is a chat's id or the beginning of one, as far as it is unique. Without a command, lists
    the chats.

    \b
    Exit codes:
      0  done, also when a search finds nothing
      1  not possible now: a file that is no chat, a chat that is answering
      2  wrong use: an option, an id that several chats begin with
      4  no such chat
      6  the history cannot be read or written
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_chats)


@history.command("list")
@in_scope
@click.option("--limit", "-n", type=click.IntRange(1), help="At most so many, the latest first.")
@as_json
def list_chats(scope: str = "all", limit: int | None = None, is_json: bool = False) -> None:
    """List chats, the latest used first.

    \b
    An element of --json:
      id, title, created_at, updated_at            times in Unix seconds
      model                                        the one chosen for the chat; null is
                                                   the default one of each run
      archived_at, deleted_at                      null when it is not
      forked_from                                  a chat's id or null
      is_of_compare                                whether it is an answer that was not kept
    """
    with open_store() as store:
        chats = store.chats(scope_of(scope))[:limit]
        ids = short_ids(store)
    if is_json:
        print_json([_chat_record(chat) for chat in chats])
        return
    if not chats:
        click.echo("There are no chats.", err=True)
    _print_rows([(ids[c.id], _day(c.updated_at), _state(c), title_of(c)) for c in chats])


@history.command()
@click.argument("text", nargs=-1, required=True, type=TEXT)
@in_scope
@as_json
def search(text: tuple[str, ...], scope: str, is_json: bool) -> None:
    """Find TEXT in titles, questions and answers, the best hits first. Any text will do.

    In all chats also the answers of compares that were not kept are found.

    \b
    The object of --json:
      hits            a list of chat_id, title, message (null for the title itself),
                      role, snippet, places ([start, end] of each hit in the snippet),
                      is_on_branch (whether the chat shows the message),
                      is_of_compare (whether it is an answer that was not kept)
      is_cut          whether there may be more
      num_unindexed   older messages that were not looked at yet
    """
    with open_store() as store:
        result = store.search(" ".join(text), scope=scope_of(scope))
        ids = short_ids(store)
    if is_json:
        print_json(
            {
                "hits": [_hit_record(hit) for hit in result.hits],
                "is_cut": result.is_cut,
                "num_unindexed": result.num_unindexed,
            }
        )
        return
    if not result.hits:
        click.echo("Nothing found.", err=True)
    _print_rows([_hit_row(hit, ids) for hit in result.hits])
    if result.num_unindexed:
        click.echo(f"{result.num_unindexed:,} older messages are not indexed yet.", err=True)


@history.command(short_help="Print a conversation.")
@click.argument("chat", shell_complete=complete_chats)
@as_json
def show(chat: str, is_json: bool) -> None:
    """Print the conversation of CHAT; with --json everything, as `export` writes it."""
    with open_store() as store:
        found = find_chat(store, chat)
        if is_json:
            from localpaged.chat.portable.json_chats import write_json

            write_json([store.whole_chat(found.id)], sys.stdout)
            return
        from localpaged.chat.view import shown

        conversation = store.conversation(found.id)
    click.echo(f"# {title_of(found)}")
    for message in shown(conversation.chat, conversation.messages):
        click.echo(f"\n[{visible(message.role)}]\n{visible(message.text, multiline=True)}")


@history.command()
@click.argument("chat", shell_complete=complete_chats)
@click.argument("title", nargs=-1, required=True, type=TEXT)
def rename(chat: str, title: tuple[str, ...]) -> None:
    """Give CHAT another TITLE."""
    from localpaged.chat.title import one_line
    from localpaged.errors import ConfigError
    from localpaged.store.text import storable

    named = one_line(storable(" ".join(title)))
    if not named:
        raise ConfigError("A title has a character that can be seen.")
    with open_store() as store:
        change(store, find_chat(store, chat), title=named)


@history.command()
@several_chats
@click.option("--undo", is_flag=True, help="Put them on the list again.")
def archive(chats: tuple[str, ...], undo: bool) -> None:
    """Take chats off the list; searches still find them."""
    with open_store() as store:
        for found in [find_chat(store, chat) for chat in chats]:
            if not undo:
                refuse_answering(store, found)
            change(store, found, archived_at=None if undo else time.time())


@history.command()
@several_chats
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--undo", is_flag=True, help="Bring deleted chats back.")
def rm(chats: tuple[str, ...], yes: bool, undo: bool) -> None:
    """Delete chats. For 30 days `--undo` brings them back, then they are gone."""
    from localpaged.chat.kept_kv import forget

    with open_store() as store:
        for found in [find_chat(store, chat) for chat in chats]:
            if undo:
                change(store, found, deleted_at=None)
            elif yes or click.confirm(f"Delete “{title_of(found)}”?", err=True):
                refuse_answering(store, found)
                change(store, found, deleted_at=time.time())
                forget(found.id)


def _chat_record(chat: Chat) -> dict[str, Any]:
    names = ("id", "title", "model", "created_at", "updated_at", "archived_at", "deleted_at")
    record = {name: getattr(chat, name) for name in (*names, "forked_from")}
    return {**record, "model": chat.model or None, "is_of_compare": chat.is_hidden}


def _hit_record(hit: SearchHit) -> dict[str, Any]:
    return {
        "chat_id": hit.chat.id,
        "title": hit.chat.title,
        "message": hit.message_hash,
        "role": hit.role,
        "snippet": hit.snippet.text,
        "places": [list(place) for place in hit.snippet.places],
        "is_on_branch": hit.is_on_branch,
        "is_of_compare": hit.chat.is_hidden,
    }


def _snippet(hit: SearchHit) -> str:
    return visible(hit.snippet.text)


def _hit_row(hit: SearchHit, ids: Mapping[str, str]) -> tuple[str, ...]:
    chat = hit.chat
    of_compare = " (answer of a compare)" if chat.is_hidden else ""
    found = f"{title_of(chat)}{of_compare}: {_snippet(hit)}"
    return ids.get(chat.id, chat.id), _day(chat.updated_at), hit.role, found


def _state(chat: Chat) -> str:
    if chat.deleted_at is not None:
        return "deleted"
    return "archived" if chat.archived_at is not None else ""


def _day(time_s: float) -> str:
    return datetime.fromtimestamp(time_s).strftime("%Y-%m-%d %H:%M")


def _print_rows(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


history.add_command(export)
history.add_command(import_chats)
