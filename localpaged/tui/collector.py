"""Python's collector of cycles, kept out of the way of the screen."""

from __future__ import annotations

import gc

THRESHOLDS = (2_000, 20, 100)
"""New objects a young collection, young ones a middle one, middle ones a full one.

With Python's own numbers eight panes that stream have a full collection of 150 ms every few
seconds and spend a third of the screen's time on it; with these the longest takes 10 ms.
"""


def stop_collector() -> None:
    """Collect nothing until `calm_collector`: a tenth of the time to the first picture was that."""
    gc.disable()


def calm_collector() -> None:
    """Let what is alive now alone for ever, and look at what is new less often."""
    gc.set_threshold(*THRESHOLDS)
    gc.freeze()
    gc.enable()
