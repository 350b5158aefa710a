"""Engines that come and go, that are several, or that cannot be read: what the dashboard does."""

from __future__ import annotations

from dataclasses import replace

from localpaged.errors import StatsError
from testkit.dashboards import dashboard
from testkit.screens import SMALL
from testkit.scripted_stats import ScriptedSource, model, snapshot
from testkit.sizes import SIZES


def one(**changes) -> ScriptedSource:
    return ScriptedSource(a=snapshot(4_121, model(**changes)))


@SIZES
async def test_several_engines_and_models_are_gone_through_both_ways(size):
    two = snapshot(2, model("first"), model("second"))
    source = ScriptedSource(a=snapshot(1, model("alone")), b=two)
    async with dashboard(source, size=size) as shown:
        assert "first" in shown.lines[0] and "model 1 of 2  engine 2 of 2" in shown.lines[1]
        names = []
        for key in ("e", "e", "e", "E", "E"):
            await shown.press(key)
            names.append(shown.lines[0].split()[2])
        assert names == ["second", "alone", "first", "alone", "second"]
        assert "e next engine" in shown.lines[-1] or size == SMALL


async def test_one_engine_with_one_model_says_that_there_is_no_other():
    async with dashboard(one(), size=SMALL) as shown:
        await shown.press("e")
        assert "One engine runs" in shown.text


@SIZES
async def test_an_engine_that_ended_leaves_its_last_picture_marked_as_old(size):
    async with dashboard(one(), size=size) as shown:
        del shown.source.running["a"]
        await shown.look()
        shown.clock[0] += 12.0
        await shown.look()
        assert "ended 12 s ago" in shown.text and "live" not in shown.lines[0]
        assert shown.screen.charts.styles.tint.a > 0
        assert " before " in shown.text and " now" not in shown.text
        assert "Radix tree question" in shown.text and "188" in shown.text


async def test_it_connects_again_by_itself_when_an_engine_comes_back():
    async with dashboard(one(), size=SMALL) as shown:
        del shown.source.running["a"]
        await shown.look()
        shown.source.running["b"] = snapshot(77, model("again"))
        await shown.look()
        await shown.look()
        assert "again" in shown.lines[0] and "live" in shown.lines[0]
        assert shown.screen.charts.styles.tint.a == 0
        assert "chat 77" in shown.lines[0]


async def test_another_engine_that_was_there_all_the_time_is_offered_not_taken():
    source = ScriptedSource(b=snapshot(2, model("other")), a=snapshot(1, model("mine")))
    async with dashboard(source, size=SMALL) as shown:
        del source.running["a"]
        await shown.look()
        assert "mine" in shown.lines[0] and "another engine runs" in shown.lines[1]
        await shown.press("e")
        assert "other" in shown.lines[0] and "live" in shown.lines[0]


@SIZES
async def test_without_an_engine_it_says_how_to_start_one_and_waits(size):
    async with dashboard(ScriptedSource(), size=size) as shown:
        assert "No engine is running." in shown.text and "localpaged chat" in shown.text
        assert shown.lines[-1].strip() == "F1 help   q quit"
        await shown.press("s", "z", "m", "v", "e", "y", "tab", "o")
        shown.source.running["a"] = snapshot()
        await shown.look()
        assert "decode" in shown.text and "No engine" not in shown.text


async def test_a_program_that_loads_its_model_is_told_of():
    loading = replace(snapshot(), models=(), loading=("qwen3-4b",))
    async with dashboard(ScriptedSource(a=loading)) as shown:
        assert "loading qwen3-4b" in shown.lines[0]
        shown.source.running["a"] = snapshot()
        await shown.look()
        assert "decode" in shown.text


@SIZES
async def test_what_cannot_be_read_is_told_and_the_last_picture_stays(size):
    async with dashboard(one(), size=size) as shown:
        shown.source.failures["a"] = StatsError("It speaks [b]9.0[/b].", hint="Use the same.")
        await shown.look()
        assert "no answer" in shown.lines[0] and "Radix tree question" in shown.text
    source = one()
    source.failures["a"] = StatsError("It speaks [b]9.0[/b].", hint="Use the same.")
    async with dashboard(source, size=size) as shown:
        assert "It speaks [b]9.0[/b]." in shown.text and "Use the same." in shown.text
