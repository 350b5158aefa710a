"""What readers of a program's socket get, and what they cannot do to it or to each other."""

import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.errors import EngineGone
from localpaged.stats import connections, protocol, publisher, sockets
from localpaged.stats.protocol import DETAILS, MAX_REQUEST_BYTES
from localpaged.stats.reader import StatsReader, engine_sockets, open_engines
from localpaged.stats.schema import SCHEMA_MAJOR
from testkit.engine_runs import make_core, make_request, run
from testkit.stats_source import CoreSource, eventually, read_from, telling

HOSTILE = "\x1b]52;c;x\x07 [b]{}\u202e\u200b\udcff"
NOTHING: frozenset[str] = frozenset()


def plain(thread):
    return sockets.connect(thread.path, timeout_s=10.0)


def lines(connection):
    return connection.makefile("rb")


def test_a_reader_gets_all_that_was_asked_for():
    source = CoreSource(titles={"a": HOSTILE})
    run(source.core, [make_request("a", range(40))])
    source.core.pin("pin", range(16))
    with telling(source) as thread, read_from(thread) as reader:
        assert (reader.greeting.pid, reader.greeting.command) == (4_121, "chat")
        (model,) = reader.snapshot(DETAILS).models
        blocks = model.blocks
        assert blocks.active + blocks.pinned + blocks.cached + blocks.free == blocks.total == 64
        assert blocks.pinned == 1
        assert model.block_map is not None and model.block_map.states.startswith("pc")
        assert model.tree is not None and model.tree.num_blocks == 2
        (chat,) = model.chats
        assert (chat.chat_id, chat.title, chat.state) == ("a", HOSTILE, "cached")
        assert model.totals.generated_tokens == 8
        assert model.ttft.count == 1 and model.inter_token.count == 7


def test_what_was_not_asked_for_is_not_looked_for():
    source = CoreSource()
    with telling(source) as thread, read_from(thread) as reader:
        (model,) = reader.snapshot(NOTHING).models
        assert (model.tree, model.block_map, model.chats) == (None, None, ())
        samples = len(reader.snapshot(NOTHING).rss_bytes_history)
        eventually(lambda: len(reader.snapshot(NOTHING).rss_bytes_history) > samples)
    assert source.num_inspections == 0


def test_readers_that_ask_together_share_one_look():
    source = CoreSource()
    with telling(source) as thread:
        readers = [read_from(thread) for _ in range(5)]
        for reader in readers:
            reader._connection.sendall(protocol.line_of(protocol.request(DETAILS)))
        for reader in readers:
            assert json.loads(lines(reader._connection).readline())["models"]
            reader.close()
    assert source.num_inspections < 5


def test_socket_and_folder_are_the_owners_alone():
    with telling() as thread:
        assert stat.S_IMODE(thread.path.stat().st_mode) == 0o600
        assert stat.S_IMODE(thread.path.parent.stat().st_mode) == 0o700
        assert thread.path.parent == paths.runtime_dir()


def test_a_loose_folder_is_repaired(home):
    (home / "run").mkdir(mode=0o777)
    (home / "run").chmod(0o777)
    with telling() as thread:
        assert stat.S_IMODE(thread.path.parent.stat().st_mode) == 0o700


def test_the_socket_goes_with_the_program():
    with telling() as thread:
        reader = read_from(thread)
        assert engine_sockets() == [thread.path]
    assert engine_sockets() == [] and list(paths.runtime_dir().iterdir()) == []
    with pytest.raises(EngineGone):
        reader.snapshot()
    reader.close()
    with pytest.raises(EngineGone):
        StatsReader(thread.path)


@pytest.mark.parametrize("loss", ["removed", "replaced", "folder"])
def test_a_socket_whose_name_is_lost_is_made_anew_and_readers_read_on(loss):
    with telling() as thread, read_from(thread) as reader:
        path = thread.path
        if loss == "folder":
            shutil.rmtree(path.parent)
        else:
            path.unlink()
        if loss == "replaced":
            path.write_text("not ours")
        eventually(lambda: bool(sockets.living(4_121)))

        assert reader.snapshot(NOTHING).models, "it was connected before"
        with read_from(thread) as anew:
            assert anew.snapshot(NOTHING).models
    assert not sockets.living(4_121)


def test_what_took_the_sockets_name_stays(monkeypatch):
    def refuse(pid):
        raise PermissionError("no more")

    with telling() as thread:
        monkeypatch.setattr(sockets, "listen", refuse)
        thread.path.unlink()
        thread.path.write_text("not ours")
    assert thread.path.read_text() == "not ours"


def test_two_programs_are_told_apart():
    with telling(pid=1) as first, telling(pid=2) as second:
        assert first.path != second.path
        readers, failures = open_engines()
        assert [reader.greeting.pid for reader in readers] == [1, 2] and not failures
        for reader in readers:
            reader.close()


LISTEN = """
import os, sys, time
from localpaged.stats import sockets
listener, path = sockets.listen(os.getpid())
print(path, flush=True)
sys.stdin.read()
"""


def start_listener():
    process = subprocess.Popen(
        [sys.executable, "-c", LISTEN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_program_left_is_removed():
    with telling() as thread:
        process, path = start_listener()
        with process:
            assert len(engine_sockets()) == 2
            process.send_signal(signal.SIGKILL)
        assert path.exists()
        readers, failures = open_engines()
        assert [reader.path for reader in readers] == [thread.path] and not failures
        assert not path.exists()
        for reader in readers:
            reader.close()


def test_a_program_that_is_stopped_is_told_and_the_others_are_read():
    with telling() as thread:
        process, path = start_listener()
        with process:
            process.send_signal(signal.SIGSTOP)
            readers, (failure,) = open_engines(timeout_s=0.2)
            assert [reader.path for reader in readers] == [thread.path]
            assert str(path) in failure.message and "does not answer" in failure.message
            process.kill()
        for reader in readers:
            reader.close()


def test_only_sockets_are_taken_for_sockets():
    with telling():
        other = paths.runtime_dir() / "notes.sock"
        other.write_text("mine")
        assert other not in engine_sockets()
        assert other.read_text() == "mine"


def test_a_path_that_is_too_long_for_a_socket_is_no_trouble(tmp_path, monkeypatch):
    home = tmp_path / ("long" * 20) / ("longer" * 20)
    monkeypatch.setenv(paths.HOME_VARIABLE, str(home))
    with telling() as thread, read_from(thread) as reader:
        assert len(os.fsencode(thread.path)) > 107
        assert reader.snapshot().program.pid == 4_121


def test_a_program_without_a_place_for_its_socket_goes_on(home, caplog):
    (home / "run").write_text("a file")
    samples = []
    with telling(on_sample=samples.append) as thread:
        assert thread.path is None
        eventually(lambda: len(samples) > 2)
    assert "stats cannot be looked at" in caplog.text


def test_a_reader_that_never_reads_holds_nobody_up(monkeypatch):
    monkeypatch.setattr(connections, "SEND_LIMIT_S", 0.3)
    source = CoreSource(make_core_with_a_large_map())
    with telling(source) as thread, read_from(thread) as reader:
        deaf = plain(thread)
        deaf.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                deaf.send(protocol.line_of(protocol.request(DETAILS)))
        for _ in range(5):
            assert reader.snapshot().models
        hung_up = select.poll()
        hung_up.register(deaf, 0)  # looks for the other side's end without reading a byte
        eventually(lambda: hung_up.poll(0))
        assert reader.snapshot().models
        deaf.close()


def make_core_with_a_large_map():
    return make_core(num_blocks=40_000)


def is_dropped(connection):
    """Whether the other side has ended it; what was sent before is read first."""
    try:
        while connection.recv(1 << 16):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def test_a_reader_that_goes_away_in_the_middle_holds_nobody_up():
    with telling() as thread, read_from(thread) as reader:
        for _ in range(3 * connections.MAX_READERS):
            connection = plain(thread)
            connection.sendall(protocol.line_of(protocol.request(DETAILS)))
            connection.close()
        assert reader.snapshot().models


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"GET / HTTP/1.1\r\n",
        b'{"get": "secrets"}\n',
        b'{"get": "snapshot", "details": "all"}\n',
        b"\xff\xfe\x00\n",
        b"[" * 4_000 + b"\n",
        b'{"get": "snapshot", "schema_version": "' + str(SCHEMA_MAJOR + 1).encode() + b'.0"}\n',
        b'{"get": "snapshot", "schema_version": []}\n',
    ],
)
def test_a_request_that_is_none_is_answered_with_a_sentence(line):
    with telling() as thread, plain(thread) as connection:
        told = lines(connection)
        told.readline()
        connection.sendall(line)
        assert json.loads(told.readline())["error"]["message"].endswith(".")
        connection.sendall(b'{"get": "snapshot"}\n')
        assert json.loads(told.readline())["program"]["pid"] == 4_121


def test_a_request_without_an_end_is_cut():
    with telling() as thread, plain(thread) as connection, read_from(thread) as reader:
        connection.sendall(b"x" * (2 * MAX_REQUEST_BYTES))
        connection.setblocking(False)
        eventually(lambda: is_dropped(connection))
        assert reader.snapshot().models


def test_details_of_a_newer_program_are_passed_over():
    with telling() as thread, plain(thread) as connection:
        told = lines(connection)
        told.readline()
        connection.sendall(b'{"get": "snapshot", "details": ["tree", "weather", 3], "x": 1}\n')
        assert json.loads(told.readline())["models"][0]["tree"]


def test_twenty_readers_are_all_answered():
    with telling() as thread:
        readers = [read_from(thread) for _ in range(20)]
        for _ in range(3):
            assert all(reader.snapshot(NOTHING).models for reader in readers)
        for reader in readers:
            reader.close()


def test_the_one_who_asked_nothing_for_the_longest_time_makes_room():
    with telling() as thread:
        idle = plain(thread)
        lines(idle).readline()
        readers = [read_from(thread) for _ in range(connections.MAX_READERS)]
        assert all(reader.snapshot(NOTHING).models for reader in readers)
        idle.setblocking(False)
        assert is_dropped(idle)
        for reader in [*readers, idle]:
            reader.close()


def test_an_engine_that_is_busy_is_told_of_without_its_blocks(monkeypatch):
    monkeypatch.setattr(publisher, "INSPECTION_LIMIT_S", 0.05)
    source = CoreSource()
    source.is_busy = True
    source.core.submit(make_request("a", range(40)))
    with telling(source) as thread, read_from(thread) as reader:
        (model,) = reader.snapshot().models
        assert (model.tree, model.block_map) == (None, None)
        assert [chat.state for chat in model.chats] == ["waiting"]
        assert reader.snapshot(NOTHING).models


def test_a_source_that_fails_ends_one_connection_and_nothing_else(caplog):
    class Failing(CoreSource):
        fails = False

        def titles(self, chat_ids):
            if self.fails:
                raise RuntimeError("no titles")
            return super().titles(chat_ids)

    source = Failing()
    with telling(source) as thread, read_from(thread) as reader:
        source.fails = True
        with pytest.raises(EngineGone):
            reader.snapshot()
        with read_from(thread) as other:
            assert other.snapshot(NOTHING).models
    assert "no titles" in caplog.text


def test_what_cannot_be_sampled_is_logged_once_and_readers_are_answered(caplog):
    tries = []

    def fail(collector):
        tries.append(collector)
        raise RuntimeError("no sample")

    with telling(on_sample=fail) as thread, read_from(thread) as reader:
        eventually(lambda: len(tries) > 3)
        assert reader.snapshot(NOTHING).models
    assert caplog.text.count("could not be sampled") == 1
