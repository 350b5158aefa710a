"""`localpaged history export` and `import`: chats to files and back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localpaged.chat.portable.file_format import FileFormat
from localpaged.cli.completing import complete_chats
from localpaged.cli.stored import find_chat, open_store, print_json, scope_of
from localpaged.plain_text import visible

if TYPE_CHECKING:
    from localpaged.chat.portable.report import Imported, ImportProgress

FORMATS = [kind.value for kind in FileFormat]
NAME_CHARS = 40
"""What of a file's name fits a line beside how far it is read."""


@click.command(short_help="Write chats to Markdown or JSON.")
@click.argument("chats", nargs=-1, metavar="[CHAT]...", shell_complete=complete_chats)
@click.option("--all", "is_all", is_flag=True, help="Every chat that is not deleted; as JSON.")
@click.option(
    "--format", "kind", type=click.Choice(FORMATS), help="By default the file's name decides."
)
@click.option("--output", "-o", default="-", help="A new file, a folder, or - for stdout.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def export(
    chats: tuple[str, ...], is_all: bool, kind: str | None, output: str, force: bool
) -> None:
    """Write chats to a file: Markdown to read (one chat), or JSON with everything."""
    from localpaged.chat.portable import exporting
    from localpaged.errors import ConfigError

    if bool(chats) is is_all:
        raise ConfigError("Name the chats to export, or give --all.")
    with open_store() as store:
        found = (
            store.chats(scope_of("all")) if is_all else [find_chat(store, chat) for chat in chats]
        )
        ids = [chat.id for chat in found]
        format_ = FileFormat(kind or _kind_of(output, len(ids), is_all=is_all))
        if format_ is FileFormat.MARKDOWN and len(ids) != 1:
            raise ConfigError(
                f"Markdown holds one chat, not {len(ids)}.", hint="Use --format json."
            )
        if output == "-":
            exporting.export(store, ids, format_, _Visible() if _is_shown(format_) else sys.stdout)
        else:
            path = exporting.export_to(store, ids, format_, Path(output), force=force)
            click.echo(f"Wrote {_chats(len(ids))} to {visible(str(path))}.", err=True)


@click.command("import", short_help="Add chats from files, ChatGPT's too.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--json", "is_json", is_flag=True, help="Print a JSON object.")
def import_chats(files: tuple[str, ...], is_json: bool) -> None:
    """Add the chats of files: localpaged's JSON or Markdown, or ChatGPT's conversations.json.

    What is here already is not made twice. A file without any chat that can be read keeps none of
    the others from being imported.

    \b
    The object of --json:
      chats      a list of chat_id, title, outcome (new, grew, known or busy)
      problems   sentences on what could not be read
    """
    from localpaged.chat.portable.importing import import_file
    from localpaged.errors import BadChatFile

    done: list[Imported] = []
    problems: list[str] = []
    refused: list[BadChatFile] = []
    with open_store() as store:
        for file in files:
            try:
                with _progress(file) as told:
                    report = import_file(store, Path(file), told=told)
            except BadChatFile as error:
                refused.append(error)
                problems.append(error.message.removesuffix("."))
                continue
            done += report.chats
            problems += report.problems
            more = report.num_problems - len(report.problems)
            problems += [f"{more:,} more of that kind"] if more else []
    is_only_one = len(files) == len(refused) == 1
    for problem in problems if not is_only_one else ():
        click.echo(f"Not read: {visible(problem)}.", err=True)
    _print_imported(done, problems, is_json=is_json, is_empty=is_only_one)
    if is_only_one:
        raise refused[0]
    if refused:
        raise BadChatFile(
            f"{len(refused)} of {len(files)} files have no chats that can be read.",
            hint=refused[0].hint,
        )


@contextmanager
def _progress(file: str) -> Iterator[Callable[[ImportProgress], None]]:
    """What shows on a terminal how far a file is read, and takes it away at the end."""
    from localpaged.cli.answer import StatusLine

    status = StatusLine()
    name = visible(Path(file).name)[:NAME_CHARS]
    try:
        yield lambda progress: status.show(f"importing {name}: {progress.words} …")
    finally:
        status.show("")


def _print_imported(
    done: Sequence[Imported], problems: Sequence[str], *, is_json: bool, is_empty: bool
) -> None:
    from localpaged.chat.portable.report import summary

    if is_json:
        chats = [
            {"chat_id": i.chat.id, "title": i.chat.title, "outcome": i.outcome.value} for i in done
        ]
        print_json({"chats": chats, "problems": problems})
        return
    if not is_empty:
        click.echo(f"{summary(done)}.", err=True)


def _kind_of(output: str, num_chats: int, *, is_all: bool) -> str:
    suffix = Path(output).suffix.lower().removeprefix(".")
    if suffix in FORMATS:
        return suffix
    return "json" if is_all or num_chats != 1 else "md"


def _is_shown(format_: object) -> bool:
    """Whether a terminal would act on what is written: JSON is ASCII, Markdown is exact."""
    return str(format_) != "json" and sys.stdout.isatty()


class _Visible:
    """stdout when it is a terminal: nothing that is written acts on it."""

    def write(self, text: str) -> int:
        """Write a text with visible marks."""
        return sys.stdout.write(visible(text, multiline=True))


def _chats(number: int) -> str:
    return "1 chat" if number == 1 else f"{number:,} chats"
