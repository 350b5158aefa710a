"""The KV pool as one line: blocks in use, kept for reuse, free."""

from __future__ import annotations

from localpaged.engine.snapshot import EngineSnapshot
from localpaged.tui.figures import compact, percent
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.markdown.line import Role, Run
from localpaged.tui.paint import cells_of

WIDE_BAR_CELLS = 24
NARROW_BAR_CELLS = 10
LEAST_BAR_CELLS = 3


def kv_runs(snapshot: EngineSnapshot, glyphs: Glyphs, cells: int) -> list[Run]:
    """As much of bar, share and block counts as fits in `cells`; nothing without a pool.

    The share counts blocks in use alone: what is merely kept for reuse is given up when needed, and
    what is pinned is kept on purpose.
    """
    if not snapshot.total_blocks:
        return []
    active, pinned = snapshot.held_blocks - snapshot.pinned_blocks, snapshot.pinned_blocks
    share = Run(f" {percent(active, snapshot.total_blocks):>5} active", Role.TEXT)
    counts = [
        Run("  "),
        Run(glyphs.bar_held, Role.ACCENT),
        Run(f" {compact(active)} active ", Role.DIM),
        *([Run(glyphs.bar_held, Role.WARNING)] if pinned else []),
        *([Run(f" {compact(pinned)} pinned ", Role.DIM)] if pinned else []),
        Run(glyphs.bar_cached, Role.ACCENT),
        Run(f" {compact(snapshot.cached_blocks)} cached ", Role.DIM),
        Run(glyphs.bar_free, Role.FAINT),
        Run(f" {compact(snapshot.free_blocks)} free", Role.DIM),
    ]
    for bar_cells, extra in (
        (WIDE_BAR_CELLS, counts),
        (NARROW_BAR_CELLS, counts),
        (NARROW_BAR_CELLS, []),
        (LEAST_BAR_CELLS, []),
    ):
        runs = [Run("KV ", Role.DIM), *_bar(snapshot, glyphs, bar_cells), share, *extra]
        if cells_of(runs) <= cells:
            return runs
    return []


def _bar(snapshot: EngineSnapshot, glyphs: Glyphs, cells: int) -> list[Run]:
    total, pinned_blocks = snapshot.total_blocks, snapshot.pinned_blocks
    held = _cells_for(snapshot.held_blocks, total, cells)
    pinned = min(held, _cells_for(pinned_blocks, total, cells))
    cached = min(cells - held, _cells_for(snapshot.cached_blocks, total, cells))
    return [
        Run(glyphs.bar_held * (held - pinned), Role.ACCENT),
        Run(glyphs.bar_held * pinned, Role.WARNING),
        Run(glyphs.bar_cached * cached, Role.ACCENT),
        Run(glyphs.bar_free * (cells - held - cached), Role.FAINT),
    ]


def _cells_for(blocks: int, total: int, cells: int) -> int:
    """A share of the bar; anything at all shows at least one cell."""
    return min(cells, max(1, round(blocks * cells / total))) if blocks else 0
