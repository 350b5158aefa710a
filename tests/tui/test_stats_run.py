"""The dashboard in a real terminal, beside a program that tells its stats."""

from __future__ import annotations

import os
import signal
import sys

from testkit.engine_runs import make_request, run
from testkit.stats_source import CoreSource, telling
from testkit.terminals import in_terminal

RUN = "import sys; from localpaged.tui.stats.run import run_dashboard; sys.exit(run_dashboard())"
CRASH = f"from localpaged.tui.stats.screen import StatsScreen as S; S.draw = lambda s: 1 / 0; {RUN}"
LEFT = b"\x1b[?1049l"


def program(code: str):
    return {"args": [sys.executable, "-c", code], "env": dict(os.environ)}


def test_it_shows_a_running_program_notices_its_end_and_leaves_the_terminal_as_it_was():
    source = CoreSource(titles={"a": "A chat with [brackets]"})
    run(source.core, [make_request("a", range(40))])
    with in_terminal(program(RUN), columns=140, rows=40) as terminal:
        with telling(source):
            terminal.until_shown("live", "KV pool", "A chat with [brackets]", "decode tok/s")
            terminal.resize(80, 24)
            terminal.until_shown("decode tok/s", "q quit")
        terminal.until_shown("ended", "A chat with [brackets]")
        terminal.send("q")
        assert terminal.wait() == 0
        assert LEFT in terminal.output


def test_a_signal_that_ends_it_leaves_the_terminal_as_it_was():
    with in_terminal(program(RUN), columns=80, rows=24) as terminal:
        terminal.until_shown("No engine is running.")
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.wait() == 0
        assert LEFT in terminal.output


def test_an_error_of_its_own_is_told_with_the_place_of_its_details(home):
    with in_terminal(program(CRASH), columns=100, rows=30) as terminal:
        assert terminal.wait() != 0
        _, restored, rest = terminal.output.partition(LEFT)
        assert restored and b"localpaged.log" in rest and b"ZeroDivisionError" in rest
