"""`localpaged serve`: its arguments and what its help says; `serving` does it."""

from __future__ import annotations

from typing import Any

import click

from localpaged.cli.options import engine_options
from localpaged.cli.server_options import server_options


@click.command()
@server_options
@engine_options
def serve(**options: Any) -> int:
    """Serve the model over an OpenAI-compatible HTTP API.

    Clients use http://HOST:PORT/v1 as their base URL. Requests run side by side, and beginnings
    that they share are computed once. Nothing of them is saved.

    Only this machine can connect unless --host says otherwise, which needs an API key in
    LOCALPAGED_API_KEY. With a key, every request must have it.

    Ctrl+C or SIGTERM lets open answers go on for ten seconds, a second one ends them.

    \b
    Paths:
      /v1/chat/completions, /v1/completions, /v1/models
      /health   the engine is alive   /ready   the model is loaded
      /metrics  for Prometheus
    """
    from localpaged.cli.serving import run_serve

    return run_serve(options)
