"""One check that breaks, hangs or takes too long leaves the others running, and is told."""

import json
import os
import re
import time
from pathlib import Path

import pytest

from gpu_check_parts.checks import CHECKS, TOTAL_S, Check, Conditions
from gpu_check_parts.entries import Case, Fault, Skip
from gpu_check_parts.report import report_of
from gpu_check_parts.running import Result, run_apart, run_here
from gpu_check_parts.running_all import exit_status, faults_of, run_all
from gpu_check_parts.table import table_of
from testkit.gpu_checks import BAR, scripted

MACHINE = {"card": "Some | Card", "torch": "2.13", "commit": "0123456789abcdef"}


def run(*checks, total_s=60.0, is_rehearsal=True):
    def apart(check, budget_s):
        return run_apart(check, budget_s=check.budget_s, is_rehearsal=is_rehearsal)

    names = [check.name for check in checks]
    return list(run_all(checks, apart, wanted=names, total_s=total_s, clocks=dict))


def told(result):
    return [entry.name for entry in result.entries if isinstance(entry, Case)]


@pytest.mark.parametrize(
    ("name", "outcome", "line"),
    [
        ("raising", "failed", "ValueError: it broke in two lines (raising.py:8)"),
        ("killed", "failed", "ended by signal 9"),
        ("disagreeing", "failed", "operator, case: nan times the tolerance"),
    ],
)
def test_a_check_that_fails_is_told_with_what_it_had_and_the_next_one_runs(name, outcome, line):
    broken, after = run(scripted(name, bars=(BAR,)), scripted("telling"))
    assert (broken.outcome, after.outcome) == (outcome, "passed")
    assert told(broken) == (["case"] if name == "disagreeing" else ["before"])
    assert any(line in told_line for told_line in faults_of([broken]))
    assert Skip(BAR, "the check ended before it") in broken.entries
    assert exit_status([broken, after]) == 1


def test_a_check_that_hangs_is_stopped_when_its_budget_is_spent_and_keeps_what_it_told():
    started_s = time.monotonic()
    stopped, after = run(scripted("hanging", budget_s=4.0), scripted("telling"))
    assert time.monotonic() - started_s < 15
    assert (stopped.outcome, after.outcome) == ("stopped", "passed")
    assert told(stopped) == ["before"]
    assert faults_of([stopped]) == ["Scripted hanging: stopped when its 4 s were spent"]
    assert exit_status([stopped, after]) == 1


def test_a_check_that_never_stops_telling_is_stopped():
    (stopped,) = run(scripted("chattering", budget_s=3.0))
    assert stopped.outcome == "stopped"
    assert stopped.entries


def test_processes_of_one_check_share_the_processors(monkeypatch):
    there = os.cpu_count() or 1
    monkeypatch.setattr("os.cpu_count", lambda: 2 * there + 2)  # enough for two processes
    (result,) = run(scripted("threads", shards=2))
    told = {entry.what: entry.why for entry in result.entries if isinstance(entry, Skip)}
    each = f"{max(there // 2, 1)} threads"
    assert told == {"process 0": each, "process 1": each}


def test_a_bar_that_is_missed_has_an_exit_status_of_its_own():
    met, missed = run(scripted("telling"), scripted("missing"), is_rehearsal=False)
    assert exit_status([met]) == 0
    assert exit_status([met, missed]) == 3
    assert missed.outcome == "passed"


def instantly(budgets, *, took_s=0.0):
    def make(check, budget_s):
        budgets[check.name] = budget_s
        return Result(check, "passed", (), took_s, budget_s)

    return make


def test_what_a_check_leaves_over_goes_to_the_next_ones_and_nobody_takes_what_is_anothers():
    checks = [Check(name, name, "", 10.0) for name in "abc"]
    budgets = {}
    list(run_all(checks, instantly(budgets), wanted="abc", total_s=30.0, clocks=dict))
    assert [round(budgets[name]) for name in "abc"] == [10, 20, 30]


def test_a_check_for_which_no_time_is_left_is_told_as_left_out_with_its_bars():
    checks = [Check("a", "a", "", 10.0), Check("b", "b", "", 10.0, (BAR,))]
    first, second = run_all(checks, instantly({}), wanted="ab", total_s=-1.0, clocks=dict)
    assert (first.outcome, second.outcome) == ("skipped", "skipped")
    assert second.entries == (Skip(BAR, "0 s of -1 were left"),)


def test_one_that_is_not_asked_for_gives_its_time_away():
    checks = [Check(name, name, "", 10.0) for name in "ab"]
    budgets = {}
    results = list(run_all(checks, instantly(budgets), wanted="a", total_s=20.0, clocks=dict))
    assert round(budgets["a"]) == 20
    assert results[1].why == "not asked for"


def test_all_checks_together_fit_into_four_minutes():
    assert sum(check.budget_s for check in CHECKS) <= TOTAL_S < 240
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    bars = [bar for check in CHECKS for bar in check.bars]
    assert len(set(bars)) == len(bars)


def some_results():
    conditions = Conditions(is_rehearsal=False, deadline_s=time.monotonic() + 9)
    names = ("telling", "raising", "missing", "disagreeing")
    return [run_here(scripted(name, bars=(BAR,)), conditions) for name in names]


def test_the_report_is_json_and_has_everything():
    results = some_results()
    report = json.loads(
        json.dumps(report_of(results, MACHINE, is_rehearsal=False, took_s=12.34), allow_nan=False)
    )
    assert report["format"] == 1
    assert report["kind"] == "measurement"
    assert (report["exit_status"], report["took_s"], report["machine"]) == (1, 12.3, MACHINE)
    telling, raising, missing, disagreeing = report["checks"]
    assert telling["figures"] == [
        {
            "name": "speed",
            "unit": "tok/s",
            "median": 1234.5,
            "low": 1200.0,
            "high": 1250.0,
            "runs": 7,
            "beside": {"generate": 100.0},
            "facts": {"GB/s": 9.0},
            "note": "",
        }
    ]
    assert telling["bars"][0]["is_met"] is True
    assert telling["skipped"] == [{"what": "something", "why": "there is none"}]
    assert telling["comparisons"][0]["worst_error_of_tolerance"] == 0.5
    assert raising["outcome"] == "failed"
    assert raising["faults"][0]["what"] == "raising"
    assert missing["bars"][0]["is_met"] is False
    assert disagreeing["comparisons"][0]["disagreeing"] == ["case"]
    assert disagreeing["comparisons"][0]["worst_error_of_tolerance"] == "nan"


def test_every_line_of_the_table_has_the_same_columns_whatever_things_are_called():
    text = table_of(some_results(), MACHINE, is_rehearsal=False)
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert {row.count("|") for row in rows} == {6}
    assert "| speed | 1,234 tok/s (1,200 to 1,250) | generate 100.0, 9.000 GB/s |" in text
    assert "| bar: a bar / of hostile name | 70.0% | wanted 80.0% | MISSED |" in text
    assert "| FAULT |" in text
    assert "1 DISAGREE" in text
    assert "- Scripted telling: something: there is none" in text


def test_a_rehearsal_says_so_and_judges_nothing():
    (result,) = run(scripted("telling"))
    text = table_of([result], MACHINE, is_rehearsal=True)
    assert text.startswith("REHEARSAL")
    assert "not judged" in text
    report = report_of([result], MACHINE, is_rehearsal=True, took_s=1.0)
    assert (report["kind"], report["checks"][0]["bars"][0]["is_met"]) == ("rehearsal", None)
    assert not any(isinstance(entry, Fault) for entry in result.entries)


def test_the_document_tells_of_every_check_with_its_seconds():
    document = (Path(__file__).parents[2] / "docs" / "gpu.md").read_text()
    told = re.findall(r"^\| `([\w-]+)` \| .+ \| (\d+) \|$", document, re.MULTILINE)
    assert told == [(check.name, f"{check.budget_s:.0f}") for check in CHECKS]
