"""`localpaged compare`: its arguments and what its help says; `comparing` does it."""

from __future__ import annotations

from typing import Any

import click

from localpaged.cli.completing import complete_models
from localpaged.cli.options import memory_options
from localpaged.cli.sampling import Temperatures, all_of, stop_loops_option
from localpaged.cli.text import TEXT


@click.command(short_help="Answer one PROMPT several times, side by side.")
@click.argument("prompt", nargs=-1, type=TEXT)
@click.option(
    *("--model", "-m", "models"),
    multiple=True,
    help="A model that answers. Repeatable.",
    shell_complete=complete_models,
)
@click.option("--samples", "-n", "num_samples", type=int, help="Answers of each model.")
@click.option(
    "--temperature",
    "-t",
    "temperatures",
    type=Temperatures(),
    multiple=True,
    callback=all_of,
    help="Samples take these in turn: 0.2,0.9, or repeated.",
)
@click.option("--seed", type=int, help="Seed of the first sample; the next ones count up.")
@click.option("--system", "-s", type=TEXT, help="System prompt.")
@click.option("--max-tokens", type=int, help="Length limit of each answer.")
@click.option("--top-k", type=int, help="Choose among the k likeliest tokens.")
@click.option("--top-p", type=float, help="Choose among tokens of this total probability.")
@click.option("--min-p", type=float, help="Drop tokens below this share of the likeliest.")
@click.option("--stop", type=TEXT, multiple=True, help="End answers before this text. Repeatable.")
@stop_loops_option
@click.option("--plain", "is_plain", is_flag=True, help="Print the answers, even on a terminal.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object instead of text.")
@memory_options
def compare(prompt: tuple[str, ...], **options: Any) -> int:
    """Have one PROMPT answered several times, by one model or by several.

    The prompt is read once for each model. Text from stdin is appended to it. On a terminal
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
    from localpaged.cli.comparing import run_compare

    return run_compare(prompt, options)
