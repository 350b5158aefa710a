"""`localpaged completions`: the script with which a shell completes our commands."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")
PROGRAM = "localpaged"
VARIABLE = "_LOCALPAGED_COMPLETE"


@click.command(short_help="Print a completion script for your shell.")
@click.argument("shell", type=click.Choice(SHELLS), metavar="SHELL")
@click.pass_context
def completions(ctx: click.Context, /, shell: str) -> None:
    """Print a script that completes commands, options, models and chats in SHELL.

    \b
    Put it where the shell looks for it, and open a new shell:
      bash  localpaged completions bash > \\
              ~/.local/share/bash-completion/completions/localpaged
            (make the folder first; it needs bash 4.4 and bash-completion)
      zsh   localpaged completions zsh > ~/.zfunc/_localpaged
            (with fpath+=~/.zfunc before compinit in ~/.zshrc)
      fish  localpaged completions fish > ~/.config/fish/completions/localpaged.fish

    Chats are completed by the beginnings of their ids; zsh and fish show the titles beside them.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "click knows these shells"
    made = kind(ctx.find_root().command, {}, PROGRAM, VARIABLE)
    # not `source`: it starts bash to see its version
    click.echo(made.source_template % made.source_vars())
