"""What of a model is measured over time, in the order in which it matters: a chart for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from localpaged.stats.schema import Latency, ModelHistory, ModelStats, Series, Snapshot
from localpaged.tui.figures import byte_size, compact, grouped, percent
from localpaged.tui.stats.charts import Chart
from localpaged.tui.stats.classes import CLASSES, FREE
from localpaged.tui.stats.plots import Curve, Layer, Pen, Stack
from localpaged.tui.stats.track import Track

Write = Callable[[float], str]


def number(value: float) -> str:
    """57.21 -> 57, 4.31 -> 4.3, 12345 -> 12k."""
    return f"{value:.1f}" if 0 < value < 9.95 and value != int(value) else compact(round(value))


def duration(milliseconds: float) -> str:
    """17.3 -> 17 ms, 1840 -> 1.8 s."""
    if milliseconds < 9.95:
        return f"{milliseconds:.1f} ms"
    return f"{milliseconds:.0f} ms" if milliseconds < 999.5 else f"{milliseconds / 1_000:.1f} s"


def _short_duration(milliseconds: float) -> str:
    return duration(milliseconds).replace(" ", "")


def _share(value: float) -> str:
    return f"{100 * value:.0f}%"


def _size(value: float) -> str:
    return byte_size(round(value)).replace("iB", "").replace(" ", "")


@dataclass(frozen=True, slots=True)
class Measure:
    """One curve: the field of ModelHistory it is made of, and what is told beside it.

    `edge` is the field of its upper edge, `of` turns both into numbers of the scale.
    """

    name: str
    title: str
    value: Callable[[ModelStats], str]
    paint: str
    note: str = ""
    edge: str = ""
    label: Write = number
    least: float = 1.0
    is_of_host: bool = False
    is_of_classes: bool = False


def _latency(latency: Latency) -> str:
    if latency.p50_ms is None or latency.p95_ms is None:
        return "none yet"
    return f"{_short_duration(latency.p50_ms)} {_short_duration(latency.p95_ms)}"


def _hits(model: ModelStats) -> str:
    return percent(model.totals.cached_prompt_tokens, model.totals.prompt_tokens)


def _fill(model: ModelStats) -> str:
    return (
        "none held" if model.slots.fill is None else percent(model.slots.filled, model.slots.held)
    )


MEASURES = (
    Measure(
        *("decode_tokens_per_s", "decode", lambda m: number(m.rates.decode_tokens_per_s), "chat0"),
        note="tok/s",
        least=10.0,
    ),
    Measure(
        *("prefill_tokens_per_s", "prefill"),
        *(lambda m: number(m.rates.prefill_tokens_per_s), "chat5"),
        note="tok/s",
        least=10.0,
    ),
    Measure(
        *("ttft_p50_ms", "first token", lambda m: _latency(m.ttft), "chat1"),
        note="p50 p95",
        edge="ttft_p95_ms",
        label=_short_duration,
    ),
    Measure(
        *("inter_token_p50_ms", "inter-token", lambda m: _latency(m.inter_token), "chat6"),
        note="p50 p95",
        edge="inter_token_p95_ms",
        label=_short_duration,
    ),
    Measure(
        *("batch_rows", "batch", lambda m: number(m.rates.batch_rows), "chat3"),
        note="rows a step",
        least=4.0,
    ),
    Measure(
        *("queue_length", "queue", lambda m: grouped(m.queue_length), "chat7"),
        note="waiting",
        least=4.0,
    ),
    Measure(
        *("cached_prompt_tokens", "prefix hits", _hits, "chat2"),
        note="tok/s",
        least=10.0,
    ),
    Measure(
        *("active_blocks", "KV pool", lambda m: f"{grouped(m.blocks.total)} blocks", "held"),
        least=16.0,
        is_of_classes=True,
    ),
    Measure(
        *("fill", "slots filled", _fill, "chat2"),
        note="of those held",
        label=_share,
    ),
    Measure(
        *("block_copies", "copies", lambda m: grouped(m.totals.block_copies), "chat5"),
        note="blocks",
        least=4.0,
    ),
    Measure(
        *("evicted_blocks", "evictions", lambda m: grouped(m.totals.evicted_blocks), "chat4"),
        note="blocks",
        least=4.0,
    ),
    Measure(
        *("preemptions", "preemptions", lambda m: grouped(m.totals.preemptions), "chat4"),
        least=4.0,
    ),
    Measure(
        *("host_used_blocks", "host memory", lambda m: grouped(m.host.used_blocks), "chat6"),
        note="blocks",
        least=16.0,
        is_of_host=True,
    ),
    Measure(
        *("swapped_out_blocks", "to the host"),
        *(lambda m: grouped(m.totals.swapped_out_blocks), "chat1"),
        note="blocks",
        least=4.0,
        is_of_host=True,
    ),
    Measure(
        *("swapped_in_blocks", "from the host"),
        *(lambda m: grouped(m.totals.swapped_in_blocks), "chat5"),
        note="blocks",
        least=4.0,
        is_of_host=True,
    ),
)
_HISTORIES = tuple(each.name for each in fields(ModelHistory))


class ModelTracks:
    """The curves of one model of one program. UI thread only."""

    def __init__(self) -> None:
        self._tracks = {name: Track() for name in _HISTORIES}
        self.rss = Track()
        self.now = 0

    def follow(self, snapshot: Snapshot, model: ModelStats) -> None:
        """Note what a snapshot tells of the last minutes."""
        self.now = int(snapshot.taken_at // max(0.001, snapshot.history_interval_s))
        for name, track in self._tracks.items():
            series: Series = getattr(model.history, name)
            track.merge(series, latest=self.now)
        self.rss.merge(snapshot.rss_bytes_history, latest=self.now)

    def stack(self, model: ModelStats, pen: Pen, count: int, *, each: int) -> Stack:
        """The pool by class in `count` columns: what is left is free."""

        def columns(name: str) -> list[float | None]:
            return self._tracks[f"{name}_blocks"].columns(count, each=each, now=self.now)

        layers = (Layer(columns(c.word), c.shade, c.glyph(pen)) for c in CLASSES[:-1])
        return Stack(tuple(layers), top=float(model.blocks.total), rest=FREE.glyph(pen))

    def curve(self, measure: Measure, count: int, *, each: int) -> Curve:
        """A measure's curve in `count` columns of `each` ticks."""
        columns = self._tracks[measure.name].columns(count, each=each, now=self.now)
        if not measure.edge:
            return Curve(columns)
        return Curve(columns, self._tracks[measure.edge].columns(count, each=each, now=self.now))


def charts_of(
    model: ModelStats, tracks: ModelTracks, snapshot: Snapshot, pen: Pen, *, each: int
) -> Sequence[Chart]:
    """The charts of a model; those of host memory where there is any."""
    has_host = model.host.total_blocks > 0
    shown = [measure for measure in MEASURES if has_host or not measure.is_of_host]
    charts = [_chart(measure, model, tracks, pen, each=each) for measure in shown]
    if has_host:
        charts.append(_process(snapshot, tracks, each=each))
    return charts


def _chart(
    measure: Measure, model: ModelStats, tracks: ModelTracks, pen: Pen, *, each: int
) -> Chart:
    def stack(count: int) -> Stack:
        # a class of a cell is a column each, a curve has several columns a cell
        return tracks.stack(model, pen, count, each=each * pen.columns_per_cell)

    return Chart(
        title=measure.title,
        value=measure.value(model),
        look=lambda count: tracks.curve(measure, count, each=each),
        paint=measure.paint,
        label=measure.label,
        least=measure.least,
        note=measure.note,
        stack=stack if measure.is_of_classes else None,
    )


def _process(snapshot: Snapshot, tracks: ModelTracks, *, each: int) -> Chart:
    return Chart(
        title="process",
        value=byte_size(snapshot.memory.rss_bytes),
        look=lambda count: Curve(tracks.rss.columns(count, each=each, now=tracks.now)),
        paint="other",
        label=_size,
        note="memory",
    )
