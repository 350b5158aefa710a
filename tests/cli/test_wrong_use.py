"""Options and commands that cannot be: one sentence, what to do, exit code 2."""

from __future__ import annotations

import pytest

from localpaged import __version__, wiring
from testkit.commands import assert_refused, call


@pytest.fixture(autouse=True)
def no_engine(monkeypatch):
    """Wrong options must be found before anything is opened."""

    def refuse(settings):
        raise AssertionError("the engine was started")

    monkeypatch.setattr(wiring, "open_service", refuse)


@pytest.mark.parametrize(
    ("option", "value", "field"),
    [
        ("--temperature", "-1", "temperature"),
        ("--temperature", "nan", "temperature"),
        ("--temperature", "inf", "temperature"),
        ("--temperature", "warm", "--temperature"),
        ("--top-p", "2", "top_p"),
        ("--top-p", "0", "top_p"),
        ("--top-k", "-1", "top_k"),
        ("--min-p", "1.5", "min_p"),
        ("--max-tokens", "0", "max_tokens"),
        ("--seed", "-1", "seed"),
        ("--seed", "9" * 20, "seed"),
        ("--stop", "", "stop string"),
        ("--context", "1", "context of 1 token"),
        ("--context", "0", "--context"),
        ("--kv-memory", "1K", "1,024 bytes of KV memory"),
        ("--kv-memory", "0", "--kv-memory"),
        ("--kv-memory", "much", "--kv-memory"),
        ("--threads", "0", "0 threads"),
        ("--threads", "100000", "100,000 threads"),
        ("--dtype", "int3", "--dtype"),
    ],
)
def test_a_value_out_of_range_names_its_field(option, value, field):
    assert_refused(call("ask", option, value, "Hi"), 2, field)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["ask", "--temprature", "0", "Hi"], "--temperature"),
        (["chta"], "chat"),
        (["models", "lst"], "list"),
        (["ask", "--json", "--seed"], "--seed"),
        (["pull", "org/name"], "No such command 'pull'. Did you mean 'models pull'?"),
        (["list"], "Did you mean 'history list' or 'models list'?"),
        (["completions"], "'SHELL'. Choose from: bash, zsh, fish."),
    ],
)
def test_what_is_written_wrong_is_named_with_the_nearest_that_exists(arguments, part):
    assert_refused(call(*arguments), 2, part, "--help")


@pytest.mark.parametrize("arguments", [[], ["chat"]])
def test_the_chat_needs_a_terminal_and_points_to_ask(arguments):
    assert_refused(call(*arguments), 2, "needs a terminal", "localpaged ask")


@pytest.mark.parametrize("group", [[], ["models"], ["history"]])
def test_no_line_of_the_list_of_commands_is_cut(group):
    listed = call(*group, "--help").out.partition("Commands:")[2]
    assert listed
    assert "..." not in listed


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_is_on_stdout(option):
    done = call(option)
    assert (done.code, done.err) == (0, "")
    assert all(name in done.out for name in ("ask", "chat", "models"))


def test_the_version_is_told():
    assert call("--version").out == f"localpaged, version {__version__}\n"
