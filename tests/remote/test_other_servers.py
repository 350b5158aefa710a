"""Servers that people have: our own, and where they are installed llama.cpp's and transformers'."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from localpaged.chat.events import ModelReady
from localpaged.engine.params import SamplingParams
from localpaged.errors import EndpointError, PromptTooLong
from localpaged.store.rows import TurnStatus
from testkit.endpoint_runs import Run
from testkit.http_server import scripted
from testkit.tiny_model import save_tiny_model

SHORT = SamplingParams(temperature=0.0, max_tokens=8, seed=1)


def needs(*modules: str) -> pytest.MarkDecorator:
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"{', '.join(missing)} is not installed")


def test_our_own_server_is_an_endpoint_like_any_other(begin: Callable[..., Run]):
    with scripted() as served:
        run = begin(served.url, model="")
        ready = run.recorder.wait_for(ModelReady)
        ended = run.ask(sampling=SamplingParams(top_k=20, min_p=0.1, repetition_penalty=1.1))
        assert run.recorder.text(ended.turn_id) == "Hello, world."
        assert ended.status is TurnStatus.DONE and ended.usage is not None
        assert ended.usage.completion_tokens > 0 and ended.usage.is_cache_told
        assert ready.event.context_length > 0
        assert run.service.abilities("").why_not_set("top_k") == ""


def test_our_own_server_wants_its_key(begin: Callable[..., Run], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("BOX_KEY", "a-long-enough-key")
    with scripted(api_key="a-long-enough-key") as served:
        assert begin(served.url, model="", key_env="BOX_KEY").ask().error is None
        error = begin(served.url, model="").fail()
        assert isinstance(error, EndpointError) and "wants a key" in error.message


@contextmanager
def serve(arguments: list[str], port: int) -> Iterator[str]:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments, "--port", str(port)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        url = f"http://127.0.0.1:{port}/v1"
        transport = httpx2.HTTPTransport(retries=7)
        with httpx2.Client(transport=transport, trust_env=False, timeout=60) as http:
            assert http.get(f"{url}/models").status_code == 200
        yield url
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@pytest.mark.model
@needs("llama_cpp.server" if importlib.util.find_spec("llama_cpp") else "llama_cpp", "fastapi")
def test_llama_cpp_pythons_server_answers(begin: Callable[..., Run], default_model: Path):
    arguments = ["llama_cpp.server", "--model", str(default_model), "--n_ctx", "256"]
    with serve([*arguments, "--n_threads", "1"], free_port()) as url:
        run = begin(url, model="")
        ended = run.ask("Name a colour.", sampling=SHORT)
        assert ended.error is None and run.recorder.text(ended.turn_id)
        assert run.ask("Again.", sampling=SamplingParams(top_k=5, max_tokens=4)).error is None
        assert run.fail("word " * 400) is not None


@needs("fastapi", "uvicorn")
def test_transformers_serve_answers(begin: Callable[..., Run], tmp_path: Path):
    folder = save_tiny_model(tmp_path / "tiny", "llama")
    arguments = ["transformers.cli.transformers", "serve", str(folder), "--device", "cpu"]
    with serve(arguments, free_port()) as url:
        run = begin(url, model="")
        ended = run.ask("one two", sampling=SHORT)
        assert ended.error is None and ended.usage is not None
        assert (ended.usage.completion_tokens, ended.usage.is_cache_told) == (8, False)


def test_a_prompt_that_is_too_long_for_our_server_is_told_as_that(begin: Callable[..., Run]):
    with scripted() as served:
        error = begin(served.url, model="").fail("word " * 20_000)
        assert isinstance(error, PromptTooLong) and "context length" in error.message
