"""The rows above the charts: device and memory, the KV pool by class, held slots, totals."""

from __future__ import annotations

from localpaged.stats.schema import Blocks, Memory, ModelStats, Snapshot
from localpaged.tui.figures import byte_size, compact, grouped, percent
from localpaged.tui.markdown.line import STRONG, Role
from localpaged.tui.stats.classes import ACTIVE, CACHED, CLASSES, FREE, bar_glyph
from localpaged.tui.stats.ink import Ink, InkLine, Shade, fitted, ink_cells, named
from localpaged.tui.stats.plots import Pen

LABEL_CELLS = 9
WIDE_CELLS = 110
MOST_BAR_CELLS, LEAST_BAR_CELLS = 44, 8
LEAST_LAST_CELLS = 12
DEVICE_CELLS = 16
IMPORTANT = 3
"""Of what is told of memory: device, process, and how much is used."""

Part = tuple[Ink, ...]
BarPart = tuple[float, str, Shade]


def head_lines(snapshot: Snapshot, model: ModelStats, pen: Pen, cells: int) -> list[InkLine]:
    """Return the four rows; where there is little room, what is told last is left out."""
    return _Head(snapshot, model, pen, cells).lines()


class _Head:
    """The four rows of one moment, with bars of one length."""

    def __init__(self, snapshot: Snapshot, model: ModelStats, pen: Pen, cells: int) -> None:
        self._memory = snapshot.memory
        self._model = model
        self._pen = pen
        self._cells = cells
        self._gap = "   " if cells >= WIDE_CELLS else "  "
        # what matters is told whole before a bar is long
        needed = max(self._needed(self._shares()), self._needed(self._memory_told()[:IMPORTANT]))
        room = cells - LABEL_CELLS - needed
        self._bar_cells = max(LEAST_BAR_CELLS, min(MOST_BAR_CELLS, room))

    def lines(self) -> list[InkLine]:
        """From above to below."""
        return [self._memory_row(), self._pool(), self._slots(), self._totals()]

    def _needed(self, parts: list[Part]) -> int:
        return sum(ink_cells(part) + len(self._gap) for part in parts)

    def _memory_row(self) -> InkLine:
        total, used = _machine(self._memory)
        is_device = self._memory.device_total_bytes is not None
        ours = used if is_device else min(used, self._memory.rss_bytes)
        bar = [
            (ours / total, ACTIVE.glyph(self._pen), Shade("chat3")),
            ((used - ours) / total, CACHED.glyph(self._pen), Shade("other", 0.6)),
        ]
        return self._row("Memory", bar, self._memory_told())

    def _memory_told(self) -> list[Part]:
        model, memory = self._model, self._memory
        total, used = _machine(memory)
        device = named(model.device, DEVICE_CELLS, ellipsis=self._pen.glyphs.ellipsis).strip()
        told: list[Part] = [
            (Ink(device, Role.USER, STRONG),),
            _told("process", byte_size(memory.rss_bytes)),
            _told("used", f"{byte_size(used)} of {byte_size(total)}"),
        ]
        if model.weights_bytes is not None:
            told.append(_told("weights", byte_size(model.weights_bytes)))
        told.append(_told("KV", byte_size(model.kv_bytes)))
        if memory.device_total_bytes is not None:
            told.append(_told("main memory free", byte_size(memory.system_free_bytes)))
        return told

    def _pool(self) -> InkLine:
        blocks = self._model.blocks
        total = max(1, blocks.total)
        bar = [
            (getattr(blocks, each.word) / total, each.glyph(self._pen), each.shade)
            for each in CLASSES[:-1]
        ]
        size = (
            Ink(f"{grouped(blocks.total)} blocks", Role.TEXT),
            Ink(f" of {blocks.tokens_per_block} tok", Role.FAINT),
        )
        grows = [_told("grows to", grouped(blocks.max))] if blocks.max > blocks.total else []
        return self._row("KV pool", bar, [*self._shares(), size, *grows])

    def _shares(self) -> list[Part]:
        blocks: Blocks = self._model.blocks
        space = " " if self._cells >= WIDE_CELLS else ""
        return [
            (
                Ink(f"{each.mark(self._pen)}{space}", each.shade),
                Ink(f"{each.word} ", Role.DIM),
                Ink(percent(getattr(blocks, each.word), blocks.total).replace(" ", space)),
            )
            for each in CLASSES
        ]

    def _slots(self) -> InkLine:
        model, slots = self._model, self._model.slots
        bar = [(slots.fill or 0.0, ACTIVE.glyph(self._pen), Shade("chat2"))]
        told: list[Part] = [(Ink("none held", Role.DIM),)]
        if slots.held:
            share = Ink(percent(slots.filled, slots.held))
            filled = f"{grouped(slots.filled)} of {grouped(slots.held)}"
            told = [
                (share, Ink(" filled of those held", Role.DIM)),
                (Ink(filled), Ink(" tok", Role.FAINT)),
            ]
            if model.graphs and self._cells < WIDE_CELLS:
                told.pop()  # how a card is driven matters more
        if model.host.total_blocks:
            used = f"{grouped(model.host.used_blocks)} of {grouped(model.host.total_blocks)} blocks"
            told.append(_told("host", used))
        return self._row("Slots", bar, told, last=model.graphs)

    def _totals(self) -> InkLine:
        model, totals = self._model, self._model.totals
        share = percent(totals.cached_prompt_tokens, totals.prompt_tokens)
        return self._row(
            "Totals",
            [],
            [
                (Ink("hits ", Role.DIM), Ink(share, Role.SUCCESS, STRONG)),
                (Ink(f"{compact(totals.cached_prompt_tokens)} tok", Role.SUCCESS),),
                (Ink(f"{byte_size(model.hit_bytes)} saved", Role.SUCCESS),),
                _told("generated", f"{compact(totals.generated_tokens)} tok"),
                _told("read", f"{compact(totals.prefilled_tokens)} tok"),
                _told("requests", grouped(totals.requests)),
                _told("running", grouped(model.running)),
                _told("steps", grouped(totals.steps)),
            ],
        )

    def _row(self, label: str, bar: list[BarPart], parts: list[Part], *, last: str = "") -> InkLine:
        """A label, a bar, as many parts as fit whole, and as much of the untrusted `last` as fits.

        What is left out ends the row.
        """
        row = [Ink(f"{label:<{LABEL_CELLS}}", Role.DIM)]
        if bar:
            row += bar_inks(bar, self._bar_cells, self._pen)
        for part in parts:
            gap = Ink(self._gap if len(row) > 1 else "")
            if ink_cells([*row, gap, *part]) > self._cells:
                break
            row += [gap, *part]
        room = self._cells - ink_cells(row) - len(self._gap)
        if last and room >= LEAST_LAST_CELLS:
            text = named(last, room, ellipsis=self._pen.glyphs.ellipsis).rstrip()
            row += [Ink(self._gap), Ink(text, Role.DIM)]
        return fitted(row, self._cells)


def bar_inks(parts: list[BarPart], cells: int, pen: Pen) -> list[Ink]:
    """Return a bar of shares of 1, each with its glyph; anything at all shows one cell."""
    left = cells
    inks: list[Ink] = []
    for share, glyph, shade in parts:
        wanted = min(left, max(1, round(share * cells)) if share > 0 else 0)
        inks.append(Ink(bar_glyph(glyph, pen) * wanted, shade))
        left -= wanted
    return [*inks, Ink(FREE.glyph(pen) * left, Role.RULE)]


def _told(word: str, value: str) -> Part:
    return Ink(f"{word} ", Role.DIM), Ink(value, Role.TEXT)


def _machine(memory: Memory) -> tuple[int, int]:
    """Total and used bytes of the memory that the KV pool is in."""
    total, free = memory.device_total_bytes, memory.device_free_bytes
    if total is None or free is None:
        total, free = memory.system_total_bytes, memory.system_free_bytes
    return max(1, total), max(0, total - free)
