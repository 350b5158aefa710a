"""The program's first moments: Ctrl+C while its modules are imported ends it without a word.

Cycles are not collected until a command runs (`cycles`).
"""

from __future__ import annotations

# what `signal` is made of: the module itself takes longer than all that this file is for
import _signal  # type: ignore[import-not-found]
import gc


def main() -> object:
    """Run the program and leave it."""
    gc.disable()
    is_ours = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
    if is_ours:
        # there is nothing to undo yet, and nobody who could tell a KeyboardInterrupt nicely
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from localpaged.cli.main import main as run

    if is_ours:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    return run()
