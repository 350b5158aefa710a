"""Only this machine asks unless told otherwise, no web page does, and a key is asked of all."""

from __future__ import annotations

import logging
import socket
from pathlib import Path
from typing import Any

import pytest

from localpaged.errors import ConfigError
from localpaged.server import api
from localpaged.server.guard import BODY_PATHS
from localpaged.server.listener import HttpServer
from localpaged.server.settings import ServerSettings, address
from testkit.http_server import GREEDY, Served, scripted

KEY = "a-key-that-is-long"
PATHS = ("/v1/models", "/metrics", "/health", "/ready", "/nowhere")
HOSTS = (
    "evil.example",
    "evil.example:80",
    "localhost.evil.example",
    "",
    "[::2]:80",
    "127.0.0.1.x",
    "[::1].x",
)


def raw_status(served: Served, lines: str) -> int:
    """Send bytes as they are; clients put right what is wrong."""
    with socket.create_connection(("127.0.0.1", served.server.port), timeout=10) as connection:
        connection.sendall(lines.encode() + b"\r\n\r\n")
        return int(connection.recv(64).split()[1])


def test_only_loopback_is_listened_to_by_default(served: Served):
    assert served.server._socket.getsockname()[0] == "127.0.0.1"


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", HOSTS)
def test_a_foreign_host_is_refused_everywhere(served: Served, path, host):
    assert raw_status(served, f"GET {path} HTTP/1.1\r\nHost: {host}") in (403, 400)


def test_a_request_without_a_host_is_refused(served: Served):
    assert raw_status(served, "GET /v1/models HTTP/1.0") == 403
    assert raw_status(served, "GET /v1/models HTTP/1.1") == 400


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:99", "[::1]:8000"])
def test_this_machines_names_are_welcome(served: Served, host):
    assert raw_status(served, f"GET /v1/models HTTP/1.1\r\nHost: {host}") == 200


def test_further_hosts_are_those_that_were_allowed():
    with scripted(allowed_hosts=("box.lan",)) as served:
        assert raw_status(served, "GET /v1/models HTTP/1.1\r\nHost: box.lan:8000") == 200
        assert raw_status(served, "GET /v1/models HTTP/1.1\r\nHost: tox.lan") == 403


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost.evil.example"]
)
def test_no_web_page_may_ask(served: Served, origin):
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST"}
    preflight = served.http.options("/v1/chat/completions", headers=headers)
    got = served.http.get("/v1/models", headers={"Origin": origin})

    assert (preflight.status_code, got.status_code) == (403, 403)
    for response in (preflight, got):
        assert not any(name.startswith("access-control") for name in response.headers)


def test_pages_of_allowed_origins_may_ask():
    with scripted(origins=("https://good.example",), api_key=KEY) as served:
        good = {"Origin": "https://good.example", "Access-Control-Request-Method": "POST"}
        preflight = served.http.options("/v1/chat/completions", headers=good)
        got = served.http.get("/v1/models", headers={"Origin": "https://good.example"})
        bad = served.http.get("/v1/models", headers={"Origin": "https://evil.example"})

    assert preflight.status_code == 200
    assert got.headers["access-control-allow-origin"] == "https://good.example"
    assert bad.status_code == 403


def test_what_one_page_may_is_not_told_to_others():
    with scripted(origins=("https://good.example",)) as served:
        served.http.headers["origin"] = "https://good.example"
        first = served.chat(stream=True)
        served.http.headers.pop("origin")
        second = served.chat(stream=True)

    assert first.headers["access-control-allow-origin"] == "https://good.example"
    assert "access-control-allow-origin" not in second.headers


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_a_body_that_a_page_could_send_unasked_is_refused(served: Served, kind):
    response = served.http.post(
        "/v1/chat/completions", content=b"{}", headers={"Content-Type": kind}
    )
    assert response.status_code == 415


@pytest.mark.parametrize("kind", ["text/plain", "application/json"])
def test_a_path_that_is_not_there_is_told_whatever_is_sent_to_it(served: Served, kind):
    for path in ("/v1/responses", "/v1/embeddings", "/x"):
        response = served.http.post(path, content=b"{}", headers={"Content-Type": kind})
        assert response.status_code == 404
    response = served.http.post("/health", content=b"{}", headers={"Content-Type": kind})
    assert response.status_code == 405


def test_every_path_that_reads_a_body_wants_json(served: Served):
    for path in BODY_PATHS:
        response = served.http.post(path, content=b"{}", headers={"Content-Type": "text/plain"})
        assert response.status_code == 415
    text = Path(api.__file__).read_text()
    assert text.count('methods=["POST"]') == len(BODY_PATHS)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        f"Basic {KEY}",
        f"Bearer {KEY}x",
        f"Bearer {KEY[:-1]}",
        "Bearer \xff",
    ],
)
def test_without_the_key_nothing_is_told(header, caplog: Any):
    with scripted(api_key=KEY) as served, caplog.at_level(logging.DEBUG):
        served.http.headers.pop("authorization")
        headers = {} if header is None else {"Authorization": header.encode("latin-1")}
        for path in ("/v1/models", "/metrics", "/nowhere"):
            response = served.http.get(path, headers=headers)
            assert response.status_code == 401
            assert response.json()["error"]["type"] == "invalid_request_error"
            assert KEY not in response.text
        assert served.http.get("/health").status_code == 200
    assert KEY not in caplog.text


def test_with_the_key_all_is_as_ever():
    with scripted(api_key=KEY) as served:
        assert served.chat().status_code == 200
        assert served.http.get("/metrics").status_code == 200
    assert KEY not in repr(ServerSettings(api_key=KEY))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_a_wide_address_needs_a_key(host):
    with pytest.raises(ConfigError, match="needs an API key"):
        ServerSettings(host=host)
    assert not ServerSettings(host=host, api_key=KEY).is_loopback


@pytest.mark.parametrize(
    "settings",
    [
        {"port": -1},
        {"port": 65_536},
        {"api_key": "short"},
        {"api_key": "schlüssel-schlüssel"},
        {"api_key": "two\nlines-of-a-key"},
        {"origins": ("*",)},
        {"origins": ("https://x/",)},
        {"max_requests": 0},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ConfigError):
        ServerSettings(**settings)


def test_a_port_in_use_is_one_sentence(served: Served):
    with pytest.raises(ConfigError) as refused:
        HttpServer(ServerSettings(port=served.server.port), GREEDY)

    assert refused.value.message == f"Port {served.server.port} of 127.0.0.1 is in use already."


def test_an_address_that_is_not_here_is_one_sentence():
    for host in ("192.0.2.77", "no.such.host.invalid"):
        with pytest.raises(ConfigError, match="this machine"):
            HttpServer(ServerSettings(host=host, port=0, api_key=KEY), GREEDY)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("127.0.0.1", 8000)),
        ("8080", ("127.0.0.1", 8080)),
        (":8080", ("127.0.0.1", 8080)),
        ("localhost", ("localhost", 8000)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:5", ("::1", 5)),
        ("::1", ("::1", 8000)),
    ],
)
def test_addresses_are_read_as_people_write_them(text, expected):
    assert address(text) == expected
