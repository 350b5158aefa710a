"""`localpaged doctor`: this machine and installation, and what to do about what is wrong."""

from __future__ import annotations

import click


@click.command(short_help="Check what runs here, what is wrong, what to do.")
@click.option("--json", "is_json", is_flag=True, help="Print one JSON object.")
def doctor(is_json: bool) -> int:
    """Report what runs here and why, and what to do about what is wrong.

    It looks at processor, memory and GPU, packages, settings, models, files and the history, and
    changes nothing.

    \b
    Exit codes:
      0    nothing is wrong; notes are worth knowing and stop nothing
      1    there are problems
      2    wrong use

    \b
    The object of --json:
      schema_version   changes before the dot when a meaning changes
      version          localpaged's
      verdict          the worst of all: ok, note or problem
      problems, notes  how many
      facts            what was looked at, in order
    A fact has:
      group, name      what it is about
      verdict          ok, note or problem
      value            what was found; may hold any text
      advice           what to do about it, or empty
      numbers          the same as plain values, where there are some
    """
    import os
    import shutil
    import sys
    from functools import partial

    from localpaged import __version__
    from localpaged.cli.doctor_text import report_lines, report_record, wants_colours
    from localpaged.cli.stored import print_json
    from localpaged.doctor.examine import Seams, examine
    from localpaged.doctor.terminal import read_streams

    report = examine(Seams(read_streams=partial(read_streams, encoding=sys.stdout.encoding)))
    if is_json:
        print_json(report_record(report, version=__version__))
    else:
        is_terminal = sys.stdout.isatty()
        has_colours = wants_colours(os.environ, is_terminal=is_terminal)
        columns = shutil.get_terminal_size().columns if is_terminal else None
        for line in report_lines(report, columns=columns, has_colours=has_colours):
            click.echo(line, color=has_colours)
    return int(report.verdict == "problem")
