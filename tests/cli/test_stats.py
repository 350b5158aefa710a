"""`localpaged stats`: what running programs tell, from any other process of the same user."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread

import pytest

from localpaged import paths
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.store.store import Store
from localpaged.store.writes import Write, change_chat
from testkit.builders import make_chat
from testkit.commands import assert_refused, call, run, start
from testkit.engine_runs import make_core, make_request
from testkit.engine_runs import run as run_core
from testkit.stats_source import CoreSource, ask_without_end, eventually, telling

HOSTILE = "\x1b]0;pwned\x07 [b]markup[/b] \u202e\u200b caf\xe9"


@pytest.fixture
def program():
    """A program that has answered two chats and has one that waits for its first step."""
    source = CoreSource(titles={"a": HOSTILE})
    run_core(source.core, [make_request("a", range(40)), make_request("b", range(32))])
    source.core.submit(make_request("c", range(50, 70)))
    with telling(source) as thread:
        yield thread


def looked(*arguments):
    done = call("stats", "--json", *arguments)
    return done, json.loads(done.out)


def test_text_tells_every_number_of_the_dashboard(program):
    done = call("stats", "--once")
    assert (done.code, done.err) == (0, "")
    for part in (
        *("pid 4121", "active", "pinned", "cached", "free", "prefill", "decode", "TTFT", "p95"),
        *("token ", "running", "1 waiting", "found", "not computed again", "cop", "eviction"),
        *("preemption", "branch", "sharing saves", "STATE", "OWN", "SHARED", "rows a step"),
    ):
        assert part in done.out, part
    assert "· ·" not in done.out, "the sign of what is free beside a mark between parts"


def test_without_a_terminal_no_dashboard_is_opened(program):
    assert call("stats").out.startswith("localpaged chat 0.1.0")


def test_hostile_titles_act_on_no_terminal_and_are_exact_in_json(program):
    text = call("stats", "--once").out
    assert "markup" in text
    assert not set("\x1b\x07\u202e\u200b") & set(text)
    done, data = looked()
    assert done.out.isascii()
    chats = {c["chat_id"]: c for c in data["engines"][0]["models"][0]["chats"]}
    assert chats["a"]["title"] == HOSTILE
    assert (chats["a"]["state"], chats["c"]["state"]) == ("cached", "waiting")


def test_ascii_is_ascii_alone(program):
    done = call("stats", "--once", "--ascii")
    assert "█" not in done.out and "·" not in done.out
    # what is not ours to choose, a chat's title, is written as it is
    assert done.out.replace("é", "").replace("␛", "").replace("␇", "").isascii()


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
def test_there_is_no_colour_to_switch_off(program, monkeypatch, term):
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in call("stats", "--once").out


def test_json_has_every_part_and_no_second_form(program):
    done, data = looked()
    assert (done.code, done.err) == (0, "")
    assert set(data) == {"schema_version", "engines", "failures", "offline"}
    assert data["offline"] is None and data["failures"] == []
    (model,) = data["engines"][0]["models"]
    assert model["tree"]["num_branches"] and model["block_map"]["states"]
    blocks = model["blocks"]
    classes = [blocks[name] for name in ("active", "pinned", "cached", "free")]
    assert sum(classes) == blocks["total"]


def test_several_programs_are_told_and_one_can_be_chosen(program):
    with telling(pid=9_999):
        _, data = looked()
        assert [e["program"]["pid"] for e in data["engines"]] == [4_121, 9_999]
        _, data = looked("--pid", "9999")
        assert [e["program"]["pid"] for e in data["engines"]] == [9_999]
        text = call("stats", "--once").out
        assert "pid 4121" in text and "pid 9999" in text


def test_none_running_has_an_exit_code_of_its_own_and_facts(home):
    done, data = looked()
    assert done.code == 3
    assert (data["engines"], data["offline"]["chats"]) == ([], 0)
    assert "No localpaged runs." in done.err
    store = Store.open()
    chat = make_chat(store, texts=["q", "a"])
    store.submit(Write(chat_changes=(change_chat(chat.id, title="T"),)))
    store.close()
    done, data = looked()
    assert (data["offline"]["chats"], data["offline"]["messages"]) == (1, 2)
    assert data["offline"]["database_bytes"] > 0
    done = call("stats", "--once")
    assert done.code == 3 and "1 chat" in done.out
    assert call("stats", "--once", "--pid", "1").code == 3


def test_what_another_program_lacks_is_not_told_of_the_one_that_is_meant(program):
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(paths.runtime_dir() / "7.sock"))
        silent.listen()
        done = call("stats", "--once", "--pid", "4121")
        assert (done.code, done.err) == (0, "")


def test_of_several_programs_that_cannot_be_read_each_is_told(home):
    names = ("11.sock", "12.sock", "13.sock")
    with ExitStack() as stack:
        stack.enter_context(suppress(OSError))
        for name in names:
            paths.ensure_private_dir(paths.runtime_dir())
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(str(paths.runtime_dir() / name))
            server.listen()
            Thread(target=_say_nonsense, args=(server,), daemon=True).start()
        done = call("stats", "--once")
        assert done.code == 1 and "Traceback" not in done.err
        assert [name in done.err for name in names] == [True] * 3
        done, data = looked()
        assert done.code == 1 and len(data["failures"]) == 3


def _say_nonsense(server):
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b'{"\x1b[2J": ["nonsense"]}\n')


def test_a_pid_that_is_not_ours_is_not_running(program):
    done = call("stats", "--once", "--pid", "1")
    assert done.code == 3 and "as process 1" in done.err


def test_a_history_that_cannot_be_read_is_told_beside_the_rest(home):
    paths.ensure_private_dir(paths.data_dir())
    paths.database_file().write_text("nothing but text, and more of it than a header has")
    done, data = looked()
    assert done.code == 3
    assert "not a readable database" in data["offline"]["error"]["message"]
    assert "not a readable database" in call("stats", "--once").out
    assert call("stats", "--history").code == 6


def test_past_runs_when_there_are_none(home):
    assert call("stats", "--history").err == "No run is in the history yet.\n"
    done = call("stats", "--history", "--json")
    assert (done.code, json.loads(done.out)) == (0, {"runs": []})


@pytest.mark.parametrize(
    "wrong",
    [
        ("--watch", "0"),
        ("--watch", "x"),
        ("--watch", "nan"),
        ("--watch", "inf"),
        ("--runs", "3"),
        ("--pid", "0"),
        ("--once", "--watch", "1"),
        ("--history", "--watch", "1"),
        ("--history", "--pid", "1"),
    ],
)
def test_wrong_use_is_refused(home, wrong):
    assert_refused(call("stats", *wrong), 2)


def test_a_program_of_another_version_is_told_with_both_versions(home, monkeypatch):
    monkeypatch.setattr("localpaged.stats.protocol.VERSION", "2.0")
    with telling():
        monkeypatch.setattr("localpaged.stats.protocol.VERSION", "1.0")
        done = call("stats", "--once")
    assert done.code == 1 and "version 2" in done.err and "version 1" in done.err


@contextmanager
def watching(*arguments):
    process = start("stats", "--watch", "0.1", "--json", *arguments)
    with process:
        assert process.stdout is not None
        yield process
        with suppress(ProcessLookupError):
            process.kill()


def test_watching_prints_one_whole_object_a_line_and_ends_with_ctrl_c(program):
    with watching() as process:
        looks = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert all(look["engines"][0]["program"]["pid"] == 4_121 for look in looks)
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=30)
        assert (process.returncode, err.strip()) == (130, b"")
        assert rest == b"" or rest.endswith(b"}\n")


def test_watching_ends_when_nobody_reads_any_more(program):
    with watching() as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr is not None and process.stderr.read() == b""


def test_watching_ends_with_the_last_program(home):
    with telling(CoreSource(make_core())) as thread, watching() as process:
        process.stdout.readline()
        thread.close()
        rest, _ = process.communicate(timeout=30)
        assert process.returncode == 3
        assert json.loads(rest.splitlines()[-1])["engines"] == []


def test_looks_that_take_longer_than_the_interval_follow_each_other(home, monkeypatch):
    monkeypatch.setattr("localpaged.stats.publisher.INSPECTION_LIMIT_S", 0.3)
    source = CoreSource()
    source.is_busy = True
    with telling(source), watching() as process:
        for _ in range(3):
            assert json.loads(process.stdout.readline())["engines"]


def test_watching_as_text_prints_block_after_block(program):
    process = start("stats", "--watch", "0.1")
    with process:
        assert process.stdout is not None
        heads = 0
        while heads < 2:
            heads += b"pid 4121" in process.stdout.readline()
        process.kill()


def test_neither_torch_nor_textual_is_needed_to_look(program):
    code = (
        "import sys; from localpaged.cli.main import main\n"
        "try: main(['stats', '--json'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('torch', 'textual', 'numpy', 'transformers') if m in sys.modules],"
        " file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert json.loads(done.stdout)["engines"]


def test_an_asking_program_is_looked_at_from_another_process(listed_home):
    with ask_without_end() as process:
        eventually(lambda: call("stats", "--json", "--pid", str(process.pid)).code == 0)
        done = run("stats", "--json")
        (engine,) = json.loads(done.out)["engines"]
        assert engine["program"]["command"] == "ask"
        os.kill(process.pid, signal.SIGTERM)


def test_an_endpoint_elsewhere_has_no_blocks_to_tell_of(home):
    class Elsewhere(CoreSource):
        def snapshot(self, model):
            return EngineSnapshot(model_name="big", device="cluster:8000")

    with telling(Elsewhere()):
        done = call("stats", "--once")
        assert "big · cluster:8000 · answers elsewhere" in done.out
        assert looked()[1]["engines"][0]["models"][0]["hit_bytes"] == 0
