"""Whoever goes away, reads slowly or says nothing costs the others nothing; ends are told."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from localpaged.errors import ConfigError, EngineError
from localpaged.server.api import LARGE_BODY_BYTES, SMALL_BODY_BYTES
from testkit.http_server import Served, scripted, tiny
from testkit.scripted_engine import Answer

LONG = ["word "] * 4_000


def wait_until(is_so: Callable[[], bool], *, timeout_s: float = 10.0) -> None:
    end_s = time.monotonic() + timeout_s
    while not is_so():
        assert time.monotonic() < end_s, "it did not happen"
        time.sleep(0.005)


def ask_raw(served: Served, **fields: Any) -> socket.socket:
    """Send a request over a socket of our own and return it, unread."""
    body = json.dumps(
        {"model": served.model.name, "messages": [{"role": "user", "content": "x"}], **fields}
    ).encode()
    connection = socket.create_connection(("127.0.0.1", served.server.port), timeout=10)
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body)
    return connection


def ask_taken(served: Served, **fields: Any) -> socket.socket:
    """The same, again until it is not refused for a place that somebody else has."""
    while True:
        connection = ask_raw(served, **fields)
        connection.settimeout(0.3)
        with suppress(TimeoutError):
            connection.recv(1)
            connection.close()
            continue
        return connection


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_client_that_goes_away_frees_its_blocks(tiny_folder, is_stream):
    with tiny(tiny_folder) as (served, core):
        for _ in range(3):
            connection = ask_raw(served, stream=is_stream, max_tokens=1_500, ignore_eos=True, n=2)
            wait_until(lambda: core.scheduler.kv.pool.num_held > 4)
            connection.close()
            wait_until(lambda: core.is_idle)

        assert core.scheduler.kv.pool.num_held == 0
        core.check()
        assert served.chat(max_tokens=3).status_code == 200
        page = served.http.get("/metrics").text
    assert 'request_success_total{finished_reason="abort",model_name="llama"} 3.0' in page


def test_a_client_that_goes_away_while_it_waits_is_forgotten():
    with scripted((LONG,), tokens_per_s=50.0) as served:
        ask_raw(served).close()
        wait_until(lambda: len(served.engine.cancelled) == 1)


def test_a_reader_that_takes_nothing_holds_up_nobody_and_is_cut_off():
    pieces = ["x" * 100_000] * 4_000  # far more than sockets buffer
    scripts = iter([pieces])
    with scripted(
        lambda request: next(scripts, ["quick"]), tokens_per_s=200.0, stall_s=0.3
    ) as served:
        slow = ask_raw(served, stream=True)
        served.engine.wait_submitted(1)
        assert served.chat().json()["choices"][0]["message"]["content"] == "quick"
        wait_until(lambda: served.engine.cancelled == [served.engine.submitted[0].id])
        slow.close()


def test_a_connection_that_says_nothing_is_closed():
    with scripted(read_s=0.2) as served:
        with socket.create_connection(("127.0.0.1", served.server.port), timeout=10) as silent:
            assert silent.recv(10) == b""
        with socket.create_connection(("127.0.0.1", served.server.port), timeout=10) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: x")
            assert slow.recv(10) == b""
        assert served.chat().status_code == 200


@pytest.mark.parametrize(
    "begun",
    [
        "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nX: ",
        "GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n",
        "POST /v1/nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000\r\n\r\n",
    ],
    ids=["second", "unread", "refused"],
)
def test_a_connection_that_only_trickles_is_closed_whatever_it_was_answered(begun):
    with (
        scripted(read_s=0.3) as served,
        socket.create_connection(("127.0.0.1", served.server.port), timeout=0.02) as slow,
    ):
        slow.sendall(begun.encode())
        is_open, end_s = True, time.monotonic() + 10
        while is_open:
            assert time.monotonic() < end_s, "it stays open"
            try:
                slow.sendall(b"x")
                is_open = slow.recv(4096) != b""
            except TimeoutError:
                continue
            except ConnectionError:
                is_open = False
        assert served.chat().status_code == 200


def test_nonsense_behind_an_answer_closes_the_connection_and_fills_no_log(caplog):
    with (
        scripted() as served,
        socket.create_connection(("127.0.0.1", served.server.port), timeout=10) as rude,
    ):
        head = "POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: "
        rude.sendall(f"{head}evil\r\n\r\n".encode())
        answer = b""
        while not answer.endswith(b"}}"):
            answer += rude.recv(4096)
        rude.sendall(b"no chunk\r\n")
        with suppress(ConnectionResetError):
            assert rude.recv(4096) == b""
        assert served.chat().status_code == 200
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


def test_a_connection_that_asks_slowly_and_whole_is_kept():
    with (
        scripted(read_s=0.4) as served,
        socket.create_connection(("127.0.0.1", served.server.port), timeout=10) as kept,
    ):
        for _ in range(3):
            kept.sendall(b"GET /health HTTP/1.1\r\nHo")
            time.sleep(0.2)
            kept.sendall(b"st: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"}"):
                piece = kept.recv(4096)
                assert piece, "it was closed"
                answer += piece


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("error", [None, EngineError("It cannot be.")])
def test_an_answer_that_is_over_has_given_its_place_back(is_stream, error):
    # the second request is there before the first one's answer has gone out
    with scripted((Answer(("quick",), error=error),), max_requests=1) as served:
        body = json.dumps({**_body(), "stream": is_stream}).encode()
        head = (
            "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        )
        with socket.create_connection(("127.0.0.1", served.server.port), timeout=10) as client:
            client.sendall(head.encode() + b"\r\n" + body)
            client.sendall(head.encode() + b"Connection: close\r\n\r\n" + body)
            answers = b""
            while piece := client.recv(65_536):
                answers += piece
    assert answers.count(b"HTTP/1.1 ") == 2 and b"HTTP/1.1 429" not in answers


def test_connections_leave_descriptors_to_the_rest_of_the_program(monkeypatch):
    monkeypatch.setattr("localpaged.server.connections.MAX_CONNECTIONS", 3)
    with scripted() as served:
        where = ("127.0.0.1", served.server.port)
        served.http.close()
        kept = [socket.create_connection(where, timeout=10) for _ in range(3)]
        with socket.create_connection(where, timeout=10) as more, suppress(ConnectionResetError):
            assert more.recv(1) == b"", "it is closed"
        kept.pop().close()
        for connection in kept:
            connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in connection.recv(4096)
            connection.close()


def test_a_body_that_does_not_arrive_is_given_up():
    with scripted(read_s=0.3) as served:
        with socket.create_connection(("127.0.0.1", served.server.port), timeout=10) as slow:
            slow.sendall(
                b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
            )
            assert b" 408 " in slow.recv(100)
        assert served.chat().status_code == 200


def test_small_bodies_wait_for_no_thread():
    with scripted(("quick",)) as served:
        render, readers = served.model.render, []

        def watched(messages: Any, **options: Any) -> Any:
            readers.append(threading.current_thread().name)
            return render(messages, **options)

        served.model.render = watched
        assert served.chat().status_code == 200
        assert served.chat("x" * SMALL_BODY_BYTES).status_code == 200
    assert readers[0] == "http" and readers[1].startswith("server-reader")


def test_large_bodies_are_read_behind_one_another_and_hold_up_nobody():
    with scripted(("quick",)) as served:
        render, may_go_on = served.model.render, threading.Event()

        def slowly(messages: Any, **options: Any) -> Any:
            if len(messages[0].text) > LARGE_BODY_BYTES:
                may_go_on.wait(10)
                raise ConfigError("It is too long.")
            return render(messages, **options)

        served.model.render = slowly
        asking = [
            threading.Thread(target=served.chat, args=("x" * (LARGE_BODY_BYTES + 1),))
            for _ in range(3)
        ]
        try:
            for thread in asking:
                thread.start()
            assert served.chat().json()["choices"][0]["message"]["content"] == "quick"
        finally:
            may_go_on.set()
            for thread in asking:
                thread.join(timeout=10)


def test_a_client_that_goes_away_while_its_body_is_read_gives_its_place_back():
    large = [{"role": "user", "content": "x" * (LARGE_BODY_BYTES + 1)}]
    with scripted(("quick",), max_requests=1) as served:
        render, may_go_on, begun = served.model.render, threading.Event(), []

        def slowly(messages: Any, **options: Any) -> Any:
            if len(messages[0].text) > LARGE_BODY_BYTES:
                begun.append(messages)
                may_go_on.wait(10)
            return render(messages, **options)

        served.model.render = slowly
        try:
            first = ask_raw(served, messages=large)
            wait_until(lambda: bool(begun))
            assert served.chat().status_code == 429
            first.close()
            wait_until(lambda: served.chat().status_code == 200)
            # the thread is still taken; what is behind it and left by its client never begins
            second = ask_taken(served, messages=large)
            assert served.chat().status_code == 429
            second.close()
            wait_until(lambda: served.chat().status_code == 200)
        finally:
            may_go_on.set()
        assert len(begun) == 1


def test_open_streams_may_end_when_the_server_stops():
    with scripted((["a"] * 60,), tokens_per_s=100.0, grace_s=10.0) as served:
        lines: list[str] = []

        def read() -> None:
            with served.http.stream("POST", "/v1/chat/completions", json=_body()) as response:
                lines.extend(response.iter_lines())

        reading = threading.Thread(target=read)
        reading.start()
        served.engine.wait_submitted(1)
        served.server.stop()
        reading.join(timeout=10)

    assert lines[-2:] == ["data: [DONE]", ""]
    assert sum('"content":"a' in line for line in lines) >= 1


@pytest.mark.parametrize("stops", [1, 2])
def test_streams_that_do_not_end_are_told_that_the_server_does(stops):
    with scripted((LONG,), tokens_per_s=100.0, grace_s=0.2 if stops == 1 else 60.0) as served:
        lines: list[str] = []

        def read() -> None:
            with served.http.stream("POST", "/v1/chat/completions", json=_body()) as response:
                lines.extend(response.iter_lines())

        reading = threading.Thread(target=read)
        reading.start()
        served.engine.wait_submitted(1)
        wait_until(lambda: served.engine.snapshot().generated_tokens > 3)
        for _ in range(stops):
            served.server.stop()
        reading.join(timeout=10)
        assert not reading.is_alive()

    told = [line for line in lines if line]
    assert json.loads(told[-1].removeprefix("data: "))["error"]["code"] == "shutting_down"
    # a reason that the API does not know would be an error of its own to strict clients
    assert not any('"finish_reason":"' in line for line in told)


def test_nobody_is_accepted_after_the_end():
    with scripted() as served:
        port = served.server.port
        served.server.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=2)
        served.server.close()


def test_eight_clients_are_answered_side_by_side(tiny_served):
    served, core = tiny_served
    answers: dict[int, str] = {}

    def ask(number: int) -> None:
        response = served.chat(f"client {number}", max_tokens=30, temperature=0)
        answers[number] = response.json()["choices"][0]["message"]["content"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    steps = core._metrics.steps
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken = core._metrics.steps - steps
    alone = dict(answers)
    for number in range(8):
        ask(number)

    assert alone == answers
    assert taken < 8 * 30, "they shared steps"


def _body() -> dict[str, Any]:
    message = {"role": "user", "content": "x"}
    return {"model": "fake-model", "messages": [message], "stream": True}
