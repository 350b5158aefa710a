"""The command line. Commands import what they need when they run, so that help is instant."""

from __future__ import annotations

import sys
from typing import Any

import click

from localpaged import __version__
from localpaged.cli_models import models
from localpaged.cli_options import engine_options, settings_from
from localpaged.errors import LocalPagedError
from localpaged.plain_text import visible


class Program(click.Group):
    """Shows every LocalPagedError as a sentence and a hint, with its exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except LocalPagedError as error:
            print_error(error)
            ctx.exit(error.exit_code)


def print_error(error: LocalPagedError) -> None:
    """Write the error and its hint to stderr."""
    click.echo(f"localpaged: {visible(error.message)}", err=True)
    if error.hint:
        click.echo(f"hint: {visible(error.hint)}", err=True)


@click.group(cls=Program, invoke_without_command=True)
@click.version_option(__version__, prog_name="localpaged")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Chat with a language model that runs on this machine, in this program.

    Without a command, opens the chat. Nothing is sent anywhere: no telemetry, and no network
    after a model was pulled.
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(chat)


@main.command()
@engine_options
def chat(**options: Any) -> None:
    """Open the chat: many chats at once, live KV memory."""
    settings = settings_from(options)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(
            "The chat needs a terminal. To ask one question from a script or a pipe: "
            'localpaged ask "…"'
        )
    from localpaged import paths
    from localpaged.tui.terminal import run_chat, taken

    # Before torch comes near: what native libraries print must not land on the screen.
    with taken(paths.log_file()):
        from localpaged.wiring import open_service

        service = open_service(settings)
        try:
            exit_code = run_chat(service)
        finally:
            service.close()
    sys.exit(exit_code)


@main.command()
@click.argument("question", nargs=-1)
@click.option("--system", "-s", help="System prompt of a new chat.")
@click.option("--continue", "-c", "is_continued", is_flag=True, help="Go on with the last chat.")
@click.option("--temperature", "-t", type=float, help="0 always takes the likeliest token.")
@click.option("--top-k", type=int, help="Choose among the k likeliest tokens.")
@click.option("--top-p", type=float, help="Choose among tokens of this total probability.")
@click.option("--min-p", type=float, help="Drop tokens below this share of the likeliest.")
@click.option("--seed", type=int, help="The same seed gives the same answer.")
@click.option("--max-tokens", "-n", type=int, help="Length limit of the answer.")
@click.option("--stop", multiple=True, help="End the answer before this text. Repeatable.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object instead of text.")
@engine_options
def ask(question: tuple[str, ...], **options: Any) -> None:
    """Ask one QUESTION; what comes through stdin is put behind it.

    The answer goes to stdout, everything else to stderr. Exit codes: 0 answered, 2 wrong use,
    4 no usable model, 5 the engine refused or failed, 6 history unusable, 130 interrupted.
    """
    from localpaged.cli_ask import run_ask

    sys.exit(run_ask(question, options))


main.add_command(models)
