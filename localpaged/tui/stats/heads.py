"""The rows above the charts: device and memory, the KV pool by class, held slots, totals."""

from __future__ import annotations

from localpaged.stats.schema import Blocks, Memory, ModelStats, Snapshot
from localpaged.tui.figures import byte_size, compact, grouped, percent
from localpaged.tui.glyphs import UNICODE, Glyphs
from localpaged.tui.markdown.line import STRONG, Role
from localpaged.tui.stats.ink import Ink, InkLine, Shade, fitted, ink_cells, named

LABEL_CELLS = 9
WIDE_CELLS = 110
WIDE_BAR_CELLS, NARROW_BAR_CELLS, LEAST_BAR_CELLS = 44, 24, 10
DEVICE_CELLS = 16
GAP = "   "

Part = tuple[Ink, ...]


def head_lines(snapshot: Snapshot, model: ModelStats, glyphs: Glyphs, cells: int) -> list[InkLine]:
    """Return the four rows; where there is little room, what is told last is left out."""
    return [
        _device(snapshot, model, glyphs, cells),
        _pool(model.blocks, glyphs, cells),
        _slots(model, glyphs, cells),
        _totals(model, glyphs, cells),
    ]


def bar(parts: list[tuple[float, str, Shade]], cells: int, rest: str) -> list[Ink]:
    """Return a bar of shares of 1, each with its glyph; anything at all shows one cell."""
    left = cells
    inks: list[Ink] = []
    for share, glyph, shade in parts:
        wanted = max(1, round(share * cells)) if share > 0 else 0
        inks.append(Ink(glyph * min(left, wanted), shade))
        left -= min(left, wanted)
    return [*inks, Ink(rest * left, Shade("free") if rest == "█" else Role.FAINT)]


def class_bar(blocks: Blocks, glyphs: Glyphs, cells: int) -> list[Ink]:
    """The pool as a bar of its four classes, each with a glyph of its own, too."""
    total = max(1, blocks.total)
    pinned = "▓" if glyphs is UNICODE else "P"
    return bar(
        [
            (blocks.active / total, glyphs.bar_held, Shade("held")),
            (blocks.pinned / total, pinned, Shade("pinned")),
            (blocks.cached / total, glyphs.bar_cached, Shade("held", 0.6)),
        ],
        cells,
        glyphs.bar_free,
    )


def _bar_cells(cells: int) -> int:
    if cells >= WIDE_CELLS:
        return WIDE_BAR_CELLS
    return NARROW_BAR_CELLS if cells >= 70 else LEAST_BAR_CELLS


def _row(label: str, bar_inks: list[Ink], parts: list[Part], cells: int) -> InkLine:
    """A label, a bar, and as many parts as fit whole."""
    row = [Ink(f"{label:<{LABEL_CELLS}}", Role.DIM), *bar_inks]
    for part in parts:
        gap = Ink(GAP if len(row) > 1 else "")
        if ink_cells([*row, gap, *part]) > cells:
            break
        row += [gap, *part]
    return fitted(row, cells)


def _told(word: str, value: str, note: str = "") -> Part:
    told = (Ink(f"{word} ", Role.DIM), Ink(value, Role.TEXT))
    return (*told, Ink(f" {note}", Role.FAINT)) if note else told


def _device(snapshot: Snapshot, model: ModelStats, glyphs: Glyphs, cells: int) -> InkLine:
    memory = snapshot.memory
    total, used = _machine(memory)
    rss = memory.rss_bytes
    is_device = memory.device_total_bytes is not None
    parts = [
        (rss / total, glyphs.bar_held, Shade("chat3")),
        (max(0, used - rss) / total, glyphs.bar_cached, Shade("other")),
    ]
    if is_device:
        parts = [(used / total, glyphs.bar_held, Shade("chat3"))]
    device = named(model.device, DEVICE_CELLS, ellipsis=glyphs.ellipsis).strip()
    weights = model.weights_bytes
    told: list[Part] = [
        (Ink(device, Role.USER, STRONG),),
        _told("process", byte_size(rss)),
        _told("used", f"{byte_size(used)} of {byte_size(total)}"),
        *([_told("weights", byte_size(weights))] if weights is not None else []),
        _told("KV", byte_size(model.kv_bytes)),
    ]
    if is_device:
        free = memory.system_free_bytes
        told.append(_told("main memory", f"{byte_size(free)} free"))
    return _row("Memory", bar(parts, _bar_cells(cells), glyphs.bar_free), told, cells)


def _machine(memory: Memory) -> tuple[int, int]:
    """Total and used bytes of the memory that the KV pool is in."""
    total, free = memory.device_total_bytes, memory.device_free_bytes
    if total is None or free is None:
        total, free = memory.system_total_bytes, memory.system_free_bytes
    return max(1, total), max(0, total - free)


def _pool(blocks: Blocks, glyphs: Glyphs, cells: int) -> InkLine:
    total = max(1, blocks.total)
    pinned = "▓" if glyphs is UNICODE else "P"
    classes: list[Part] = [
        (Ink(f"{glyph} ", paint), Ink(f"{word} ", Role.DIM), Ink(percent(count, total), Role.TEXT))
        for glyph, paint, word, count in (
            (glyphs.bar_held, Shade("held"), "active", blocks.active),
            (pinned, Shade("pinned"), "pinned", blocks.pinned),
            (glyphs.bar_cached, Shade("held", 0.6), "cached", blocks.cached),
            (glyphs.bar_free, Role.FAINT, "free", blocks.free),
        )
    ]
    size = (
        Ink(f"{grouped(blocks.total)} blocks", Role.TEXT),
        Ink(f" of {blocks.tokens_per_block} tok", Role.FAINT),
    )
    grows = [_told("grows to", grouped(blocks.max))] if blocks.max > blocks.total else []
    told = [*classes, size, *grows]
    return _row("KV pool", class_bar(blocks, glyphs, _bar_cells(cells)), told, cells)


def _slots(model: ModelStats, glyphs: Glyphs, cells: int) -> InkLine:
    slots = model.slots
    fill = slots.fill
    drawn = bar(
        [(fill or 0.0, glyphs.bar_held, Shade("chat2"))], _bar_cells(cells), glyphs.bar_free
    )
    if fill is None:
        return _row("Slots", drawn, [(Ink("none held", Role.DIM),)], cells)
    filled = f"{grouped(slots.filled)} of {grouped(slots.held)}"
    told: list[Part] = [
        (Ink(percent(slots.filled, slots.held), Role.TEXT), Ink(" filled of those held", Role.DIM)),
        (Ink(filled, Role.TEXT), Ink(" tok", Role.FAINT)),
    ]
    if model.host.total_blocks:
        host = model.host
        told.append(
            _told(
                "host memory", f"{grouped(host.used_blocks)} of {grouped(host.total_blocks)} blocks"
            )
        )
    return _row("Slots", drawn, told, cells)


def _totals(model: ModelStats, glyphs: Glyphs, cells: int) -> InkLine:
    totals = model.totals
    saved = byte_size(model.hit_bytes)
    told: list[Part] = [
        (
            Ink("hits ", Role.DIM),
            Ink(percent(totals.cached_prompt_tokens, totals.prompt_tokens), Role.SUCCESS, STRONG),
            Ink(f" {compact(totals.cached_prompt_tokens)} tok, {saved} saved", Role.SUCCESS),
        ),
        _told("generated", f"{compact(totals.generated_tokens)} tok"),
        _told("read", f"{compact(totals.prefilled_tokens)} tok"),
        _told("requests", grouped(totals.requests)),
        _told("running", grouped(model.running)),
        _told("steps", grouped(totals.steps)),
    ]
    return _row("Totals", [], told, cells)
