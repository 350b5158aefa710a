"""What a shell may complete besides commands and options: names of models, ids of chats.

Asked for at every press of Tab: it imports little, reads quickly, makes no file and says nothing
where something cannot be read.
"""

from __future__ import annotations

import re
from contextlib import closing
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

from localpaged import paths
from localpaged.plain_text import visible

if TYPE_CHECKING:
    import sqlite3

    import click

MODEL_SUFFIXES = (".gguf", ".json")
MAX_CHATS = 50
ID_CHARS = 13
"""As much of an id as is offered: its time to the millisecond, and a little more."""
TITLE_CHARS = 60
LOCK_WAIT_S = 0.05

_CHATS = """
SELECT id, title FROM chats WHERE deleted_at IS {not_} NULL AND NOT is_hidden
ORDER BY updated_at DESC, id DESC LIMIT 1000
"""


def complete_models(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The models here and the endpoints of the config file; behind a slash or a dot, files."""
    if incomplete[:1] in ("/", ".", "~"):
        return [CompletionItem(incomplete, type="file")]
    # bash takes a blank for the end of an offer
    names = sorted(name for name in {*_models(), *_endpoints()} if not re.search(r"\s", name))
    return [CompletionItem(visible(name)) for name in names if name.startswith(incomplete)]


def complete_chats(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The chats whose ids begin like that or whose titles have it, the latest used first."""
    wanted = incomplete.casefold()
    is_undone = bool(ctx.params.get("undo")) and ctx.info_name == "rm"
    return [
        CompletionItem(id_[: max(ID_CHARS, len(wanted))], help=visible(title)[:TITLE_CHARS])
        for id_, title in _chats(are_deleted=is_undone)
        if id_.startswith(wanted) or wanted in title.casefold()
    ][:MAX_CHATS]


def _models() -> set[str]:
    try:
        files = list(paths.models_dir().iterdir())
    except OSError:
        return set()
    return {file.stem for file in files if file.suffix in MODEL_SUFFIXES}


def _endpoints() -> set[str]:
    import tomllib

    try:
        # what is wrong with the file is told by the command itself
        remotes = tomllib.loads(paths.config_file().read_text()).get("remote", {})
    except (OSError, ValueError):
        return set()
    return set(remotes) if isinstance(remotes, dict) else set()


def _chats(*, are_deleted: bool) -> list[tuple[str, str]]:
    import sqlite3

    try:
        with closing(_history()) as db:
            return db.execute(_CHATS.format(not_="NOT" if are_deleted else "")).fetchall()
    except (sqlite3.Error, OSError):
        return []


def _history() -> sqlite3.Connection:
    """Open the history to read; SQLite itself would make files beside it where there are none."""
    import sqlite3

    path = paths.database_file()
    is_in_use = path.with_name(f"{path.name}-shm").exists()
    how = "mode=ro" if is_in_use else "immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, timeout=LOCK_WAIT_S)
