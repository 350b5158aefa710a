"""The command line. Commands import what they need when they run, so that help is instant."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from localpaged import __version__
from localpaged.cli_config import config_command, paths_command
from localpaged.cli_errors import exit_code_of
from localpaged.cli_history import history
from localpaged.cli_models import models
from localpaged.cli_options import engine_options, memory_options, settings_from
from localpaged.cli_sampling import Temperatures, all_of, sampling_options
from localpaged.cli_text import TEXT
from localpaged.config_file import read_config
from localpaged.errors import ConfigError

if TYPE_CHECKING:
    from localpaged.chat.publisher import Subscriber
    from localpaged.chat.service import ChatService


class Program(click.Group):
    """Ends every command with an exit code and no traceback; without a command, opens the chat."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run the program and leave it."""
        options["standalone_mode"] = False
        sys.exit(exit_code_of(partial(super().main, *args, **options)))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        from localpaged.log_file import logging_to_file

        with logging_to_file():
            return super().invoke(ctx)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments; none are those of `chat`, its environment variables included."""
        return super().parse_args(ctx, args or ["chat"])


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="localpaged")
def main() -> None:
    """Chat with a language model that runs on this machine, in this program.

    Without a command, opens the chat. Nothing is sent anywhere: no telemetry, and no network
    after a model was pulled. LOCALPAGED_HOME puts all files below one folder, LOCALPAGED_MODEL
    chooses the model.
    """


@main.command()
@click.option("--ascii", "is_ascii", is_flag=True, help="Draw with ASCII characters alone.")
@engine_options
def chat(is_ascii: bool, **options: Any) -> int:
    """Open the chat: many chats at once, live KV memory."""
    config = read_config()
    settings = settings_from(options, config)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError(
            "The chat needs a terminal.",
            hint='To ask one question from a script or a pipe: localpaged ask "…"',
        )
    from localpaged.tui.terminal import run_chat

    def open_chats(subscriber: Subscriber) -> ChatService:
        # only when the first picture stands: what is imported here takes longer than that
        from localpaged.wiring import open_service

        return open_service(settings, subscriber=subscriber)

    return run_chat(open_chats, is_ascii=is_ascii, config=config)


@main.command()
@click.argument("question", nargs=-1, type=TEXT)
@click.option("--system", "-s", type=TEXT, help="System prompt of a new chat.")
@click.option("--continue", "-c", "is_continued", is_flag=True, help="Go on with the last chat.")
@sampling_options
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object instead of text.")
@engine_options
def ask(question: tuple[str, ...], **options: Any) -> int:
    """Ask one QUESTION; what comes through stdin is put behind it.

    The answer goes to stdout, everything else to stderr. A question that begins with a dash
    goes behind `--`. Ctrl+C ends the answer and keeps its text; a second one ends the program.

    \b
    Exit codes:
      0    answered
      1    not possible now, or an error of our own
      2    wrong use: an option, a parameter, no question
      4    no such model, or one that cannot be used
      5    the engine refused or failed the request
      6    the history cannot be read or written
      130  interrupted with Ctrl+C (143: by SIGTERM)
      141  the reader of stdout went away

    \b
    The object of --json, also printed when the answer fails:
      chat_id, turn_id, seed           null when it did not come to that
      text                             all there is of the answer
      reasoning                        what was thought before it, or null;
                                       without --json it goes to stderr
      status                           done, stopped or error
      finish_reason                    stop, length, cancelled or null
      usage                            null, or prompt_tokens, cached_tokens,
                                       completion_tokens, ttft_s,
                                       decode_tokens_per_s
      logprobs                         null, or for each token token_id, token,
                                       logprob, alternatives (likewise)
      error                            null, or type, message, hint
    """
    from localpaged.cli_ask import run_ask

    return run_ask(question, options)


@main.command()
@click.argument("prompt", nargs=-1, type=TEXT)
@click.option("--model", "-m", "models", multiple=True, help="A model that answers. Repeatable.")
@click.option("--samples", "-n", "num_samples", type=int, help="Answers of each model.")
@click.option(
    "--temperature",
    "-t",
    "temperatures",
    type=Temperatures(),
    multiple=True,
    callback=all_of,
    help="Go round in samples: 0.2,0.9, or repeated.",
)
@click.option("--seed", type=int, help="Seed of the first sample; the next ones count up.")
@click.option("--system", "-s", type=TEXT, help="System prompt.")
@click.option("--max-tokens", type=int, help="Length limit of each answer.")
@click.option("--top-k", type=int, help="Choose among the k likeliest tokens.")
@click.option("--top-p", type=float, help="Choose among tokens of this total probability.")
@click.option("--min-p", type=float, help="Drop tokens below this share of the likeliest.")
@click.option("--stop", type=TEXT, multiple=True, help="End answers before this text. Repeatable.")
@click.option("--plain", "is_plain", is_flag=True, help="Print, on a terminal as well.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object instead of text.")
@memory_options
def compare(prompt: tuple[str, ...], **options: Any) -> int:
    """Have one PROMPT answered several times, by one model or by several.

    The prompt is read once for each model. What comes through stdin is put behind it. On a terminal
    the chat opens with the answers side by side. Otherwise, or with --plain, they go to stdout,
    each below a line that names it, or in columns where a terminal has room for them. They come in
    their order, each once it and those before it are complete. Without -n there are two samples of
    a single model, one of each of several, or one for each temperature.
    The answers are kept: `/compares` in the chat goes on with them.

    Exit codes are those of `ask`; when only some answers fail, the code is the first one's.

    \b
    The object of --json, also printed when it fails:
      compare_id                       null when it did not come to that
      prompt_tokens                    of the first answer's prompt, or null
      cached_tokens, computed_tokens   of the prompts of all answers
      branches                         for each answer chat_id, turn_id, model,
                                       temperature, seed, text, reasoning,
                                       status, finish_reason, usage, error as in
                                       `ask`, and shared_blocks, the KV blocks
                                       that it had together with others
      first_differences                for each answer but the first where it
                                       parts from that one: branches, and how
                                       many equal char, word and token come
                                       before (null: they do not differ, or
                                       tokens of two models)
      error                            null, or type, message, hint
    """
    from localpaged.cli_compare import run_compare

    return run_compare(prompt, options)


main.add_command(models)
main.add_command(history)
main.add_command(paths_command)
main.add_command(config_command)
