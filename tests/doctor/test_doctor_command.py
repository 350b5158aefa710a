"""`localpaged doctor`: lines for people, one JSON object, an exit code."""

from __future__ import annotations

import json
import re

import pytest
from rich.cells import cell_len

from localpaged import paths
from localpaged.cli.doctor_text import report_lines, report_record, wants_colours
from localpaged.doctor.fact import Fact, Group, Report, note, problem
from testkit.commands import call, command_line, run
from testkit.terminals import in_terminal

HOSTILE = "\x1b]0;pwned\x07\x9b2J [b]markup[/b] \u202e\u200b \udcff"
REPORT = Report(
    (
        Group("first", (Fact("plain", "all is well"),)),
        Group(
            HOSTILE,
            (
                note("a note", "worth " + "knowing " * 30, "look at it"),
                problem(HOSTILE, HOSTILE + "x" * 120 + "漢字" * 40, "do " + HOSTILE * 3, size=7),
            ),
        ),
    )
)


def lines(columns, *, has_colours=False):
    return list(report_lines(REPORT, columns=columns, has_colours=has_colours))


@pytest.mark.parametrize("columns", [10, 20, 40, 80, 140])
def test_no_line_is_longer_than_the_terminal_from_twenty_columns_on(columns):
    shown = [line for line in lines(columns) if line.startswith("  ") and "PROBLEM" not in line]
    assert all(cell_len(line) <= max(columns, 20) for line in shown)
    text = "".join("".join(line.split()) for line in lines(columns))
    assert text.count("x") >= 120 and text.count("漢字") == 40
    assert "1problemand1note." in text


def test_a_pipe_gets_a_line_a_fact():
    told = lines(None)
    assert sum("knowing" in line for line in told) == 1
    assert any(line.strip() == "> look at it" for line in told)


@pytest.mark.parametrize("columns", [None, 40])
def test_hostile_text_acts_on_no_terminal(columns):
    text = "\n".join(lines(columns))
    assert "markup" in text
    assert not set("\x1b\x07\x9b\u202e\u200b\udcff") & set(text)


def test_colours_are_only_where_they_are_wanted():
    assert "\x1b[31m" in "\n".join(lines(80, has_colours=True))
    plain = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(lines(80, has_colours=True)))
    assert plain == "\n".join(lines(80))


def test_the_worst_is_the_verdict_and_json_has_everything():
    record = report_record(REPORT, version="1")
    assert (record["verdict"], record["problems"], record["notes"]) == ("problem", 1, 1)
    assert record["facts"][2]["numbers"] == {"size": 7}
    assert record["facts"][2]["value"].startswith(HOSTILE)
    assert json.dumps(record).isascii()
    assert report_record(Report(()), version="1")["verdict"] == "ok"
    assert list(report_lines(Report(()), columns=None, has_colours=False)) == ["Nothing is wrong."]


def test_json_has_the_fields_that_the_help_tells(home):
    done = call("doctor", "--json")
    record = json.loads(done.out)
    help_text = call("doctor", "--help").out
    objects = help_text.partition("of --json:")[2].partition("Options:")[0]
    whole, _, fact = objects.partition("A fact has:")
    assert set(record) == told(whole)
    assert all(set(found) == told(fact) for found in record["facts"])
    assert {found["verdict"] for found in record["facts"]} <= {"ok", "note", "problem"}


def told(part):
    names = [line.strip().split("  ")[0] for line in part.splitlines() if line.startswith("    ")]
    return {name for line in names for name in line.split(", ")}


def test_without_a_model_it_ends_with_one_and_with_it_with_zero(home_with_model):
    done = run("doctor")
    assert (done.code, done.err) == (0, ""), done.out
    assert "whole, byte by byte" in done.out
    (paths.models_dir() / "smollm2-135m-instruct.gguf").unlink()
    done = call("doctor", "--json")
    assert (done.code, json.loads(done.out)["verdict"]) == (1, "problem")


def test_packages_that_are_broken_are_told_and_hide_nothing_else(home, tmp_path, monkeypatch):
    for name in ("psutil", "tokenizers", "sqlite_utils", "packaging", "torch"):
        (tmp_path / f"{name}.py").write_text(f"raise ImportError('{name} is torn')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    done = run("doctor", "--json")
    record = json.loads(done.out)
    assert (done.code, done.err, record["verdict"]) == (1, "", "problem")
    for name in ("psutil", "sqlite_utils", "packaging", "torch"):
        assert f"{name} is torn" in done.out
    assert {"Python", "config file", "data folder", "terminal"} <= {
        fact["name"] for fact in record["facts"]
    }
    assert list(home.iterdir()) == []


def test_a_broken_config_and_variable_do_not_stop_it(home, monkeypatch):
    paths.ensure_private_dir(paths.config_dir())
    paths.config_file().write_text("\x1b]0;x\x07")
    monkeypatch.setenv("LOCALPAGED_THREADS", "x\x1b[2J")
    done = call("doctor")
    assert (done.code, done.err) == (1, "")
    assert "not TOML" in done.out and "a whole number" in done.out
    assert "\x1b" not in done.out and "Traceback" not in done.out


@pytest.mark.parametrize(("columns", "rows", "env"), [(80, 24, {}), (30, 10, {"NO_COLOR": "1"})])
def test_in_a_terminal_it_fits_and_has_colours_where_they_are_wanted(home, columns, rows, env):
    with in_terminal(command_line("doctor"), columns=columns, rows=rows, env=env) as terminal:
        assert terminal.wait() == 1
    output = terminal.output.decode()
    assert ("\x1b[" in output) is ("NO_COLOR" not in env)
    plain = re.sub(r"\x1b\[[\d;]*m", "", output)
    rows_told = [line for line in plain.splitlines() if "PROBLEM" not in line]
    assert max(map(cell_len, rows_told)) <= columns


@pytest.mark.parametrize(
    ("environment", "is_terminal", "wanted"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({}, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
    ],
)
def test_who_gets_colours(environment, is_terminal, wanted):
    assert wants_colours(environment, is_terminal=is_terminal) is wanted
