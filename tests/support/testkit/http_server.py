"""The HTTP server over a scripted engine or a tiny model, on a port of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import httpx2 as httpx

from localpaged.chat.models import EmptyShelf
from localpaged.engine.engine import Engine
from localpaged.engine.events import ReadyEvent
from localpaged.engine.params import SamplingParams
from localpaged.server.listener import HttpServer
from localpaged.server.settings import ServerSettings
from testkit.fake_model import FakeChatModel
from testkit.scripted_engine import ScriptedEngine

if TYPE_CHECKING:
    from pathlib import Path

    from localpaged.engine.port import EnginePort
    from localpaged.prompt import ChatModel

GREEDY = SamplingParams(temperature=0.0, top_p=1.0)
FAST_TOKENS_PER_S = 2_000.0


@dataclass
class Served:
    """A running server, its engine and a client without ways of its own."""

    server: HttpServer
    engine: Any
    model: ChatModel
    http: httpx.Client

    @property
    def url(self) -> str:
        return f"http://{self.server.address}/v1"

    def chat(self, text: str = "hi", **fields: Any) -> httpx.Response:
        """Ask one question."""
        body = {"model": self.model.name, "messages": [{"role": "user", "content": text}]}
        return self.post("/v1/chat/completions", {**body, **fields})

    def post(self, path: str, body: Any) -> httpx.Response:
        """Post a JSON body, as Python writes it."""
        return self.http.post(
            path, content=json.dumps(body), headers={"Content-Type": "application/json"}
        )

    def stream(self, text: str = "hi", **fields: Any) -> list[dict[str, Any]]:
        """Ask one question and return the pieces of the stream, which must end as streams do."""
        response = self.chat(text, stream=True, **fields)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.text.split("\n\n")
        assert lines[-2:] == ["data: [DONE]", ""]
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


@contextmanager
def serving(
    engine: EnginePort, model: ChatModel, *, sampling: SamplingParams = GREEDY, **settings: Any
) -> Iterator[Served]:
    """Serve an engine that does not run yet; the caller starts and closes it."""
    default: Future[ChatModel] = Future()
    default.set_result(model)
    server = HttpServer(ServerSettings(port=0, **settings), sampling)
    server.attach(engine, default, EmptyShelf())
    server.start()
    headers = {"Authorization": f"Bearer {settings['api_key']}"} if "api_key" in settings else {}
    try:
        with httpx.Client(
            base_url=f"http://{server.address}", timeout=20, headers=headers, trust_env=False
        ) as http:
            yield Served(server, engine, model, http)
    finally:
        server.close()


@contextmanager
def scripted(
    script: Any = (("Hello", ", ", "world", "."),),
    *,
    model: FakeChatModel | None = None,
    loads: bool = True,
    tokens_per_s: float = FAST_TOKENS_PER_S,
    **settings: Any,
) -> Iterator[Served]:
    """Serve a scripted engine."""
    engine = ScriptedEngine(script)
    with serving(engine, model or FakeChatModel(), **settings) as served:
        if loads:
            engine.start(tokens_per_s=tokens_per_s)
            wait_ready(served)
        yield served
        engine.close()


def wait_ready(served: Served) -> None:
    """Wait until the default model answers."""
    for _ in range(2_000):
        if served.http.get("/ready").status_code == 200:
            return
    raise AssertionError("the model does not get ready")


def texts(pieces: Sequence[dict[str, Any]], index: int = 0) -> str:
    """Return the content that a stream told of one answer."""
    return "".join(
        choice["delta"].get("content") or ""
        for piece in pieces
        for choice in piece["choices"]
        if choice["index"] == index
    )


@contextmanager
def tiny(folder: Path, *, num_blocks: int = 160, **settings: Any) -> Iterator[tuple[Served, Any]]:
    """Serve a real engine over the tiny model in `folder`; also return its core."""
    from testkit.decoders import load_decoder, make_decoder_core

    decoder, opened = load_decoder(folder)
    core = make_decoder_core(
        decoder,
        num_blocks=num_blocks,
        token_bytes=opened.chat.token_bytes,
        eos_ids=opened.chat.eos_ids,
    )
    ready = ReadyEvent(opened.chat.name, "cpu", "float32", core.config.context_length, 0.1)
    engine = Engine(lambda on_load: (core, ready))
    with serving(engine, opened.chat, **settings) as served:
        engine.start()
        wait_ready(served)
        yield served, core
        engine.close()
