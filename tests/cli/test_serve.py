"""`localpaged serve` and `chat --serve` as whole programs, with the default model."""

from __future__ import annotations

import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import httpx2 as httpx
import openai
import pytest

from localpaged import paths
from localpaged.cli.server_options import server_settings
from localpaged.config_file import read_config
from localpaged.errors import ConfigError
from localpaged.server.settings import API_KEY_VARIABLE, ServerSettings
from localpaged.store.store import Store
from testkit.commands import TIMEOUT_S, Process, assert_refused, call, command_line, start
from testkit.terminals import in_terminal

MODEL = "smollm2-135m-instruct"
QUIT = "\x11"
KEY = "a-key-that-is-long"
SERVED = re.compile(r"is served on (http://\S+/v1)")
LONG: dict[str, Any] = {"script": ["word "], "times": 20_000}


@contextmanager
def serving(*options: str, **script: Any) -> Iterator[tuple[Process, str]]:
    """Run `serve` on any port until the block ends; yield the process and its address."""
    with start("serve", "--port", "0", "--threads", "1", *options, **script) as process:
        try:
            assert process.stderr is not None
            told = SERVED.search(process.stderr.readline().decode())
            assert told is not None
            yield process, told[1]
        finally:
            process.kill()


def ask(url: str, text: str, *, model: str = "fake-model", **fields: Any) -> Any:
    with openai.OpenAI(base_url=url, api_key=KEY, timeout=TIMEOUT_S, max_retries=0) as client:
        return client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": text}], **fields
        )


@pytest.mark.model
def test_the_default_model_answers(ready_home):
    with serving() as (process, url):
        question = "Name the capital of France."
        answer = ask(url, question, model=MODEL, temperature=0, max_tokens=20)
        again = ask(url, question, model=MODEL, temperature=0, max_tokens=1)
        process.send_signal(signal.SIGINT)
        code = process.wait(TIMEOUT_S)

    assert "Paris" in answer.choices[0].message.content
    assert again.usage.prompt_tokens_details.cached_tokens >= 32
    assert code == 0


@pytest.mark.model
def test_a_signal_while_the_model_loads_is_no_failure(ready_home):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with start("serve", "--port", str(port)) as process:
        status, end_s = "", time.monotonic() + TIMEOUT_S
        while not status:
            assert process.poll() is None and time.monotonic() < end_s
            with suppress(httpx.TransportError):
                status = httpx.get(f"http://127.0.0.1:{port}/health").json()["status"]
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=TIMEOUT_S)

    assert status == "loading"
    assert (process.returncode, output, errors) == (0, b"", b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_open_streams(listed_home, number):
    body = {
        "model": "fake-model",
        "messages": [{"role": "user", "content": "Tell a very long story."}],
        "stream": True,
    }
    with serving(**LONG) as (process, url):
        with httpx.stream("POST", f"{url}/chat/completions", json=body, timeout=20) as response:
            lines = response.iter_lines()
            next(lines)
            process.send_signal(number)
            process.send_signal(number)
            rest = "\n".join(lines)
        output, errors = process.communicate(timeout=TIMEOUT_S)

    assert '"code":"shutting_down"' in rest
    assert (process.returncode, output, errors) == (0, b"", b"")
    store = Store.open()
    assert store.chats() == [], "what is asked over HTTP is no chat of the history"
    store.close()


def test_the_chat_and_clients_share_one_engine(listed_home):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = command_line("chat", "--serve", str(port), script=["Hello", ", ", "world."])
    with in_terminal(command, columns=120, rows=30) as terminal:
        terminal.until_shown(f"serves :{port}", "cpu")
        terminal.resize(80, 24)
        terminal.until_shown(f"serves :{port}")
        terminal.resize(120, 30)

        answer = ask(f"http://127.0.0.1:{port}/v1", "Hi")
        terminal.send("Hi\r")
        terminal.until_shown("❯ Hi", "world.", "tok/s")

        assert answer.choices[0].message.content == "Hello, world."
        terminal.send(QUIT)
        assert terminal.wait() == 0


def test_a_port_in_use_is_told_before_anything_loads(listed_home):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert_refused(
            call("serve", "--port", port), 2, f"Port {port} of 127.0.0.1 is in use already."
        )
    assert not paths.database_file().exists()


def test_a_wide_address_without_a_key_is_refused(listed_home, monkeypatch):
    monkeypatch.delenv(API_KEY_VARIABLE, raising=False)

    assert_refused(call("serve", "--host", "0.0.0.0"), 2, "needs an API key", API_KEY_VARIABLE)


def test_a_model_that_is_not_here_is_told(home):
    assert_refused(call("serve", "--model", "no-such-model"), 4, "no-such-model")


def test_an_endpoint_is_not_served_on(listed_home):
    done = call("serve", "--port", "0", "--model", "http://127.0.0.1:1/v1#x")

    assert_refused(done, 2, "Only models of this machine are served")


def test_a_model_that_cannot_be_loaded_ends_it(listed_home):
    assert_refused(call("serve", "--port", "0"), 4, "smollm2-135m-instruct")


def test_a_key_of_the_environment_is_checked_and_never_told(listed_home, monkeypatch):
    monkeypatch.setenv(API_KEY_VARIABLE, "abc123")

    done = call("serve")

    assert_refused(done, 2, "The API key has 6 characters")
    assert "abc123" not in done.err


def settings_of(content: str, **options: Any) -> ServerSettings:
    path = paths.ensure_private_dir(paths.config_dir()) / "config.toml"
    path.write_text(content)
    return server_settings(options, read_config().server)


def test_the_config_file_says_where_and_options_go_before_it(home, monkeypatch):
    monkeypatch.delenv(API_KEY_VARIABLE, raising=False)
    key_file = home / "key"
    key_file.write_text(f"{KEY}\n")
    key_file.chmod(0o600)
    content = f"""[server]
host = "0.0.0.0"
port = 1234
api_key_file = "{key_file}"
allowed_hosts = ["box.lan"]
allowed_origins = ["https://a.b"]
max_requests = 3
"""

    found = settings_of(content, port=0, allowed_hosts=("other.lan",))

    assert (found.host, found.port, found.api_key, found.max_requests) == ("0.0.0.0", 0, KEY, 3)
    assert (found.allowed_hosts, found.origins) == (("other.lan",), ("https://a.b",))
    monkeypatch.setenv(API_KEY_VARIABLE, "another-key")
    assert settings_of(content).api_key == "another-key"
    assert KEY not in call("config", "--json").out
    assert '"server.port",\n      "value": 1234' in call("config", "--json").out


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_key_file_that_others_can_read_is_refused(home, mode, monkeypatch):
    monkeypatch.delenv(API_KEY_VARIABLE, raising=False)
    key_file = home / "key"
    key_file.write_text(KEY)
    key_file.chmod(mode)
    content = f'[server]\napi_key_file = "{key_file}"\n'

    with pytest.raises(ConfigError, match="can be read by others"):
        settings_of(content)
    key_file.unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        settings_of(content)
