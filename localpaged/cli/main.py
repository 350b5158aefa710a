"""The command line; each command is imported when it is used, so that the start is light."""

from __future__ import annotations

import gc
import sys
from functools import partial
from importlib import import_module
from typing import Any

import click

from localpaged import __version__
from localpaged.cli.errors import exit_code_of

# Name and where it is made, `module:attribute`.
COMMANDS = {
    "ask": "ask:ask",
    "chat": "chat:chat",
    "compare": "compare:compare",
    "completions": "completions:completions",
    "config": "config:config_command",
    "doctor": "doctor:doctor",
    "history": "history:history",
    "models": "models:models",
    "paths": "paths:paths_command",
    "stats": "stats:stats",
    "serve": "serve:serve",
}


class Program(click.Group):
    """Ends every command with an exit code and no traceback; without a command, opens the chat."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the program and leave it."""
        options["standalone_mode"] = False
        # whatever the program was started as: shells' scripts set this variable
        options["complete_var"] = "_LOCALPAGED_COMPLETE"
        sys.exit(exit_code_of(partial(super().main, *args, **options)))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        from localpaged.log_file import logging_to_file

        gc.enable()  # `start` stopped it
        with logging_to_file():
            try:
                return super().invoke(ctx)
            finally:
                _finish_files()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; none are those of `chat`, its environment variables included."""
        if not args and not ctx.resilient_parsing:  # a shell that completes means no command yet
            args = ["chat"]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None where there is none of this name."""
        if cmd_name in COMMANDS:
            return _load(cmd_name)
        # the nearest name is looked for among these
        self.commands.update({name: _load(name) for name in COMMANDS})
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command, its name and its arguments; a group's command is no stranger."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            groups = [group for group in self.commands.values() if isinstance(group, click.Group)]
            there = [f"{group.name} {args[0]}" for group in groups if args[0] in group.commands]
            if not there:
                raise
            meant = " or ".join(f"'{name}'" for name in there)
            raise click.UsageError(f"{error.message} Did you mean {meant}?", ctx) from None


def _finish_files() -> None:
    """Wait for files that the command began, unless somebody has no time for them."""
    kept = sys.modules.get("localpaged.models.kept_weights")
    if kept is None or isinstance(sys.exc_info()[1], KeyboardInterrupt):
        return
    line = "Keeping the rounded weights for the next start; ^C leaves them."
    kept.wait_until_kept(lambda: click.echo(line, err=True))


def _load(name: str) -> click.Command:
    module, _, attribute = COMMANDS[name].partition(":")
    command: click.Command = getattr(import_module(f"localpaged.cli.{module}"), attribute)
    return command


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="localpaged")
def main() -> None:
    """Chat with a language model that runs on this machine, in this program.

    Without a command, opens the chat. Nothing is sent anywhere: no telemetry, and no network
    after a model was pulled, unless an endpoint is named as the model. LOCALPAGED_HOME puts all
    files below one folder, but for what is compiled for the processor; LOCALPAGED_MODEL chooses the
    model.
    """
