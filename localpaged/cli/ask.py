"""`localpaged ask`: its arguments and what its help says; `asking` does it."""

from __future__ import annotations

from typing import Any

import click

from localpaged.cli.options import engine_options
from localpaged.cli.sampling import sampling_options
from localpaged.cli.text import TEXT


@click.command()
@click.argument("question", nargs=-1, type=TEXT)
@click.option("--system", "-s", type=TEXT, help="System prompt of a new chat.")
@click.option("--continue", "-c", "is_continued", is_flag=True, help="Continue the last chat.")
@sampling_options
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object instead of text.")
@engine_options
def ask(question: tuple[str, ...], **options: Any) -> int:
    """Ask one QUESTION; text from stdin is appended to it.

    The answer goes to stdout, everything else to stderr. A question that begins with a dash
    goes behind `--`. Ctrl+C ends the answer and keeps its text; a second one ends the program.
    A new chat whose question no model began to read is put with the deleted ones.

    \b
    Exit codes:
      0    answered
      1    not possible now, or an internal error
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
      finish_reason                    stop, length, cancelled, null, or repeated
                                       for one that only repeated itself
      usage                            null, or prompt_tokens, cached_tokens,
                                       completion_tokens, load_s, ttft_s,
                                       decode_tokens_per_s; load_s until the
                                       model was loaded, ttft_s from then to
                                       the first token
      logprobs                         null, or for each token token_id, token,
                                       logprob, alternatives (likewise)
      error                            null, or type, message, hint
    """
    from localpaged.cli.asking import run_ask

    return run_ask(question, options)
