"""What a reader makes of sockets that answer as no program of this version does."""

import socket
import threading
from contextlib import suppress

import pytest

from localpaged.errors import StatsError
from localpaged.stats.reader import StatsReader


def serve_once(path, *said):
    """A program that says these lines to whoever connects, and ends."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def serve():
        connection, _ = listener.accept()
        with connection, suppress(BrokenPipeError):
            connection.sendall(b"".join(said))
        listener.close()

    threading.Thread(target=serve, daemon=True).start()
    return path


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (b'{"schema_version": "9.0", "pid": 1, "started_at": 1}\n', "version 9"),
        (b'{"pid": 1}\n', "no version"),
        (b'{"schema_version": "1.0", "pid": "1"}\n', "not localpaged"),
        (b"220 mail ready\r\n", "no JSON"),
        (b"7\n", "not localpaged"),
        (b"", "has ended"),
    ],
)
def test_who_is_not_of_this_version_is_refused_with_a_sentence(tmp_path, said, sentence):
    path = serve_once(tmp_path / "1.sock", said)
    with pytest.raises(StatsError, match=sentence):
        StatsReader(path)


def test_who_sends_byte_after_byte_is_waited_for_no_longer_than_who_is_silent(tmp_path):
    is_over = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "1.sock"))
        listener.listen()

        def drip() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                while not is_over.wait(0.002):
                    connection.sendall(b"x")

        threading.Thread(target=drip, daemon=True).start()
        try:
            with pytest.raises(StatsError, match="does not answer: timed out"):
                StatsReader(tmp_path / "1.sock", timeout_s=0.2)
        finally:
            is_over.set()


def test_an_answer_without_an_end_is_cut(tmp_path, monkeypatch):
    monkeypatch.setattr("localpaged.stats.reader.MAX_ANSWER_BYTES", 1 << 16)
    path = serve_once(tmp_path / "1.sock", b"x" * (1 << 20))
    with pytest.raises(StatsError, match="too long"):
        StatsReader(path)
