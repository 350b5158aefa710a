"""Curves, scales and tracks: what is measured becomes columns, and columns become characters."""

from __future__ import annotations

import pytest

from localpaged.tui.glyphs import ASCII
from localpaged.tui.stats.charts import Chart, chart_lines, grid_of
from localpaged.tui.stats.curves import area
from localpaged.tui.stats.ink import Ink, Shade, beside, fitted, ink_cells, named
from localpaged.tui.stats.plots import Curve, Layer, Pen, Stack, stack_lines
from localpaged.tui.stats.scale import ceiling
from localpaged.tui.stats.track import MAX_TICKS, Track

FULL = "⣿"


def texts(lines) -> list[str]:
    return ["".join(ink.text for ink in line).rstrip() for line in lines]


def chart(title: str, columns: list[float | None], **options) -> Chart:
    def look(count: int) -> Curve:
        padded = [None] * max(0, count - len(columns)) + columns[-count:]
        return Curve(padded)

    return Chart(title, "57", look, "chat0", lambda value: f"{value:.0f}", **options)


def test_a_column_is_as_high_as_its_share_and_two_of_them_share_a_cell():
    assert area([4, 4, 2, 2, 0, 0], top=4, rows=1, is_ascii=False) == [FULL + "⣤ "]
    assert area([8, 8, 4, 4], top=8, rows=2, is_ascii=False) == [FULL + " ", FULL * 2]


def test_anything_at_all_shows_a_dot_and_nothing_known_shows_none():
    assert area([0.001, None], top=100, rows=1, is_ascii=False) == ["⡀"]
    assert area([None, None], top=100, rows=2, is_ascii=False) == [" ", " "]


def test_what_is_above_the_top_is_cut_there():
    assert area([900, 900], top=4, rows=1, is_ascii=False) == [FULL]


def test_a_second_curve_is_drawn_as_its_edge_above_the_first():
    upper, lower = area([1, 1], top=8, rows=2, is_ascii=False, line=[8, 8])
    assert (upper, lower) == ("⠉", "⣀")


def test_in_ascii_a_curve_is_plain_characters_one_a_column():
    rows = area([6, 3, 1, 0, None], top=6, rows=2, is_ascii=True, line=[6, 6, 6, 6, 6])
    assert rows == ["#----", "##.  "] and all(row.isascii() for row in rows)


@pytest.mark.parametrize(
    ("largest", "top"), [(0.3, 1), (1, 1), (1.2, 1.5), (57, 60), (101, 150), (9_999, 10_000)]
)
def test_a_scale_ends_at_a_round_number_above_all_values(largest, top):
    assert ceiling([None, 0.0, largest]) == top


def test_a_small_scale_follows_small_values():
    assert ceiling([0.031], least=0.01) == pytest.approx(0.04)


def test_a_track_keeps_the_peak_of_each_column():
    track = Track()
    track.merge([1.0, 9.0, 2.0, 2.0, 3.0, 1.0], latest=5)
    assert track.columns(3, each=2, now=5) == [9.0, 2.0, 3.0]
    assert track.columns(4, each=2, now=4) == [None, 9.0, 2.0, 3.0]


def test_a_later_reading_of_the_same_second_replaces_the_earlier_one():
    track = Track()
    track.merge([4.0, 1.0], latest=1)
    track.merge([5.0, None, 7.0], latest=2)
    assert track.columns(3, each=1, now=2) == [5.0, None, 7.0]


def test_a_time_without_an_engine_is_a_gap():
    track = Track()
    track.merge([1.0, 1.0], latest=1)
    track.merge([4.0], latest=4)
    assert track.columns(5, each=1, now=4) == [1.0, 1.0, None, None, 4.0]


def test_a_curve_moves_along_and_keeps_its_shape():
    track = Track()
    track.merge([float(tick % 5) for tick in range(20)], latest=19)
    before = track.columns(5, each=4, now=19)
    track.merge([0.5, 0.25, 0.0, 0.0], latest=23)
    assert track.columns(5, each=4, now=20)[:-1] == before[1:]
    assert track.columns(5, each=4, now=23) == track.columns(5, each=4, now=20)


def test_a_track_is_bounded():
    track = Track()
    for start in range(0, MAX_TICKS * 2, 120):
        track.merge([1.0] * 120, latest=start + 119)
    assert len(track._numbers) <= MAX_TICKS


def test_charts_take_the_room_there_is_and_never_more():
    charts = [chart(f"chart {n}", [1.0, 2.0, 3.0]) for n in range(12)]
    for cells in (1, 7, 20, 34, 60, 80, 110, 140, 300):
        for rows in (1, 2, 5, 12, 13, 24, 40):
            lines = chart_lines(
                charts, Pen(), cells=cells, rows=rows, span=lambda columns: f"{columns} s"
            )
            assert len(lines) <= rows
            assert all(ink_cells(line) <= cells for line in lines)


def test_a_wide_screen_has_four_charts_a_row_and_each_has_its_scale():
    charts = [chart(f"chart {n}", [30.0, 57.0]) for n in range(8)]
    assert grid_of(8, cells=140, rows=12).across == 4
    lines = texts(
        chart_lines(charts, Pen(), cells=140, rows=13, span=lambda columns: f"{columns} s")
    )
    assert "chart 0" in lines[0] and "chart 3" in lines[0] and "chart 4" in lines[7]
    assert lines[1].startswith("   60 ") and lines[5].startswith("    0 ")
    assert lines[-1].count("52 s ago") == 4 and lines[-1].endswith("now")


def test_with_little_room_a_chart_is_one_row_with_name_value_and_the_top_of_its_scale():
    charts = [chart("decode", [30.0, 57.0]), chart("queue", [1.0])]
    line = texts(chart_lines(charts, Pen(), cells=40, rows=2, span=lambda columns: f"{columns} s"))[
        0
    ]
    assert line.split()[:3] == ["decode", "57", "60"] and "\u2800" < line[-1] <= "\u28ff"


def test_charts_in_ascii_are_ascii():
    charts = [chart("decode", [30.0, 57.0])]
    for rows in (1, 2, 5, 8):
        lines = texts(
            chart_lines(
                charts, Pen(ASCII), cells=50, rows=rows, span=lambda columns: f"{columns} s"
            )
        )
        assert "".join(lines).isascii()


def test_rows_are_cut_between_characters_and_hostile_names_are_shown_as_what_they_are():
    assert ink_cells(fitted([Ink("漢字漢字")], 3)) == 3
    assert ink_cells(beside([Ink("left" * 20)], [Ink("right")], 30)) == 30
    name = named("\x1b[31m[b]x\u202e\n", 30, ellipsis="…")
    assert name.strip() == "␛[31m[b]x<U+202E>␊"
    assert named("a very long title", 8, ellipsis="…") == "a very …"


def stacked(pen: Pen, *, rows: int):
    layers = (
        Layer([0.0, 8.0, 9.0, None], Shade("held"), "#"),
        Layer([0.0, 0.1, 1.0, 1.0], Shade("pinned"), "P"),
    )

    def look(count: int) -> Stack:
        padding = [None] * (count - 4)
        return Stack(
            tuple(Layer([*padding, *layer.columns], layer.shade, layer.glyph) for layer in layers),
            top=16.0,
            rest=".",
        )

    return stack_lines(look, pen, cells=10, rows=rows, label=lambda value: f"{value:.0f}")


def test_a_stack_has_eight_levels_a_row_and_anything_at_all_shows_one():
    upper, lower = stacked(Pen(), rows=2)
    assert texts([upper, lower]) == ["   16 █▁▁", "    0 ███"]
    drawn = [(ink.paint, ink.ground) for ink in (*upper[1:4], *lower[1:3])]
    held, pinned, free = Shade("held"), Shade("pinned"), Shade("free")
    assert drawn == [(free, free), (pinned, free), (held, free), (free, free), (held, held)]


def test_without_colours_a_stack_has_a_glyph_for_each_class():
    for pen in (Pen(ASCII), Pen(has_colours=False)):
        assert texts(stacked(pen, rows=4)) == [
            "   16 ...",
            "      .PP",
            "      .##",
            "    0 .##",
        ]
