"""The command line with answers from a script: `python -m testkit.scripted_cli ask "Hi"`.

SCRIPT is JSON: the pieces of every answer, how often they repeat, how many seconds it loads.
"""

from __future__ import annotations

import json
import os

from localpaged import wiring
from localpaged.cli.main import main
from testkit.commands import ScriptedRuns


def run() -> None:
    """Run the command and leave the program."""
    pieces, times, load_s = json.loads(os.environ["SCRIPT"])
    runs = ScriptedRuns([pieces * times], load_s=load_s)
    wiring.open_service = runs.open_service
    main()


if __name__ == "__main__":
    run()
