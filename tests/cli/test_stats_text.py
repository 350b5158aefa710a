"""Stats as text fit the terminal they are printed on, and bars keep their proportions."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from localpaged.cli.runs_text import runs_text
from localpaged.cli.stats_look import Look, bar, curve
from localpaged.cli.stats_text import snapshot_text
from localpaged.stats.collector import Collector
from localpaged.stats.protocol import DETAILS
from localpaged.stats.schema import Program
from localpaged.store.run_summaries import RunSummary
from testkit.engine_runs import make_request, run
from testkit.stats_source import CoreSource

HOSTILE = "\x1b[2J界界[b]\u202e"


@pytest.fixture
def told():
    source = CoreSource(titles={"a": "T"})
    run(source.core, [make_request("a", range(40)), make_request("b", range(32))])
    collector = Collector(source, Program("0.1.0", 7, "chat", 0.0))
    collector.sample()
    return collector.snapshot(DETAILS, {"": source.core.inspect()})


def runs(*names):
    return [
        RunSummary(
            *(f"run {place}", name, "compare", "0", place, 1e9 + place, 1e9 + 90 * place),
            requests=3,
            busy_s=3_000.0,
            generated_tokens=123_456 * place,
            bytes_per_block=1 << 20,
            peak_held_blocks=place,
        )
        for place, name in enumerate(names)
    ]


@pytest.mark.parametrize("columns", [45, 60, 80, 140])
@pytest.mark.parametrize("look", [Look, Look.ascii])
def test_a_snapshot_fits_the_terminal_and_loses_nothing(told, columns, look):
    whole = snapshot_text(told, look())
    fitted = snapshot_text(told, look(columns=columns))
    assert max(map(cell_len, fitted.splitlines())) <= columns
    parts = [part for line in whole.splitlines() for part in line.split(f" {look().dot} ")]
    assert all(part in fitted for part in parts if not part.startswith(("KV  ", "decode ")))


def test_a_model_is_told_with_device_and_numbers(told):
    (model,) = told.models
    text = snapshot_text(replace(told, models=(replace(model, dtype="int8"),)), Look())
    assert "cpu · int8 · " in text


@pytest.mark.parametrize("columns", [60, 80, 100, 140])
def test_past_runs_fit_the_terminal(columns):
    text = runs_text(runs("smollm2-135m-instruct", HOSTILE, "m"), Look(columns=columns))
    assert max(map(cell_len, text.splitlines())) <= columns
    assert len(text.splitlines()) == 4
    for column in ("STARTED", "WHAT", "GENERATED", "TOK/S"):
        assert column in text


def test_past_runs_have_every_column_in_a_pipe_and_names_act_on_nothing():
    text = runs_text(runs(HOSTILE, "m"), Look())
    head, *lines = text.splitlines()
    assert head.endswith("FOUND  PEAK KV  MODEL")
    assert not set("\x1b\u202e") & set(text)
    assert all(line.startswith("2001-09-09") for line in lines)


def test_a_bar_of_past_runs_is_as_long_as_its_share():
    lines = runs_text(runs("m", "m", "m"), Look.ascii()).splitlines()[1:]
    assert [line.count("#") for line in lines] == [0, 6 + 6, 12 + 12]


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=4), st.integers(8, 60))
def test_whatever_there_is_has_a_cell_and_nothing_is_cut_off(counts, cells):
    drawn = bar([("abcd"[place], count) for place, count in enumerate(counts)], sum(counts), cells)
    assert len(drawn) <= cells
    assert set(drawn) == {"abcd"[place] for place, count in enumerate(counts) if count}


def test_a_curve_shows_the_latest_points_that_fit():
    series = (*(9.0 for _ in range(100)), None, 1.0)
    assert len(curve(series, Look())) == 48
    narrow = curve(series, Look(columns=40))
    assert len(narrow) == 10 and narrow.endswith("█ ▂")


def test_a_card_says_that_its_steps_are_recorded_or_why_they_are_not(told):
    assert "graphs " not in snapshot_text(told, Look())
    recorded = replace(told, models=(replace(told.models[0], device="cuda:0"),))
    assert "graphs    decode steps are recorded" in snapshot_text(recorded, Look())
    noted = replace(told.models[0], runner_note=f"CUDA graphs are switched off.{HOSTILE}")
    text = snapshot_text(replace(told, models=(noted,)), Look())
    assert "graphs    CUDA graphs are switched off." in text
    assert "\x1b" not in text
