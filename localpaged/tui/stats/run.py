"""Runs the dashboard on this terminal until the user leaves it."""

from __future__ import annotations

import os

from localpaged import paths
from localpaged.tui.glyphs import ASCII, UNICODE
from localpaged.tui.stats.app import StatsApp
from localpaged.tui.stats.socket_source import SocketSource
from localpaged.tui.terminal import SIZE_VARIABLES, taken, tell_own_error
from localpaged.tui.theme import usual_theme


def run_dashboard(
    *,
    engine: str | None = None,
    interval_s: float | None = None,
    is_ascii: bool = False,
    theme: str = "",
) -> int:
    """Show what the programs on this machine tell, every `interval_s`; return the exit code.

    `engine` is the name of a socket, without its ending, to look at first, `theme` the config
    file's. The caller sees to it that there is a terminal that can place its cursor. Raises
    StoreError when the log cannot be written.
    """
    for name in SIZE_VARIABLES:
        # a size that was exported stays as it is, whatever the window does
        os.environ.pop(name, None)
    log_file = paths.log_file()
    with taken(log_file):
        known_bytes = log_file.stat().st_size
        source = SocketSource()
        try:
            app = StatsApp(
                source,
                glyphs=ASCII if is_ascii else UNICODE,
                theme=theme,
                usual_theme=usual_theme(),
                engine=engine,
                interval_s=interval_s,
            )
            app.run()
        finally:
            source.close()
    exit_code = app.return_code or 0
    if exit_code:
        tell_own_error(log_file, known_bytes)
    return exit_code
