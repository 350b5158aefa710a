"""What HTTP costs: the same requests put to the engine directly, and streamed through the server.

    python benchmarks/server.py [--model NAME] [--threads N] [--tokens N] [--rounds N]
        [--out FILE.json]

Engine and server are one process, as in `localpaged serve`; the clients are another. Rounds of the
two ways alternate, and the median of their ratios is what is worth quoting: machines are shared.
Speed is that of decoding, from each answer's first token to its last. Over HTTP requests come one
after the other, so that prompts are read beside answers: that is in the time to the first token.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import httpx2 as httpx

from localpaged.chat.models import EmptyShelf
from localpaged.config import Settings
from localpaged.engine.engine import Engine
from localpaged.engine.events import Event, FailEvent, FinishEvent, ReadyEvent, TokenEvent
from localpaged.engine.params import Request, SamplingParams
from localpaged.engine_factory import load_core
from localpaged.model_shelf import Shelf
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.prompt import ChatModel, PromptMessage
from localpaged.server.listener import HttpServer
from localpaged.server.settings import ServerSettings

CLIENTS = (1, 8)
DEFAULT_ANSWER_TOKENS = 128


@dataclass(frozen=True)
class Round:
    """Tokens a second of all clients together, and the median time to a first token."""

    tokens_per_s: float
    ttft_ms: float

    @classmethod
    def of(cls, began_s: float, times: Sequence[tuple[float, float]], tokens: int) -> Round:
        """Return what the times of each answer's first and last token come to."""
        speed = sum((tokens - 1) / (last_s - first_s) for first_s, last_s in times)
        return cls(speed, 1e3 * statistics.median(first_s - began_s for first_s, _ in times))


def question(number: int) -> str:
    """Return something that no cache has seen in full."""
    return f"{number}: write about the number {number * 7919 % 1000}, the sea and the mountains."


class Direct:
    """Requests put to the engine as `ask` does, their events collected on its thread."""

    def __init__(self, engine: Engine, model: ChatModel) -> None:
        self._engine = engine
        self._model = model
        self._first_s: dict[str, float] = {}
        self._last_s: dict[str, float] = {}
        self._open: set[str] = set()
        self._is_done = threading.Event()
        engine.add_listener(self._listen)

    def run(self, first_number: int, clients: int, tokens: int) -> Round:
        """Ask for all clients at once."""
        sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
        self._first_s.clear()
        self._is_done.clear()
        began_s = time.perf_counter()
        names = [f"direct {first_number + i}" for i in range(clients)]
        self._open = set(names)
        for i, name in enumerate(names):
            message = PromptMessage("user", question(first_number + i))
            ids = self._model.render([message])
            self._engine.submit(Request(name, ids, sampling, chat_id=name, speculation=False))
        assert self._is_done.wait(600)
        times = [(self._first_s[name], self._last_s[name]) for name in names]
        return Round.of(began_s, times, tokens)

    def _listen(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if isinstance(event, TokenEvent):
                self._last_s[event.request_id] = time.perf_counter()
                self._first_s.setdefault(event.request_id, self._last_s[event.request_id])
            elif isinstance(event, FinishEvent | FailEvent) and event.request_id in self._open:
                assert isinstance(event, FinishEvent)
                self._open.discard(event.request_id)
                if not self._open:
                    self._is_done.set()


async def ask_over_http(
    url: str, model: str, first_number: int, clients: int, tokens: int
) -> Round:
    """Stream for all clients at once, each over a connection of its own."""
    times: list[tuple[float, float]] = []
    async with httpx.AsyncClient(timeout=600, trust_env=False) as http:
        await http.get(f"{url}/v1/models")
        began_s = time.perf_counter()

        async def ask(number: int) -> None:
            body = {
                "model": model,
                "messages": [{"role": "user", "content": question(number)}],
                "temperature": 0,
                "max_tokens": tokens,
                "ignore_eos": True,
                "seed": 1,  # nothing is guessed, as with the requests beside it
                "stream": True,
            }
            first_s = last_s = 0.0
            async with http.stream("POST", f"{url}/v1/chat/completions", json=body) as response:
                assert response.status_code == 200
                async for line in response.aiter_lines():
                    if '"content":"' in line and '"content":""' not in line:
                        last_s = time.perf_counter()
                        first_s = first_s or last_s
            assert line in ("data: [DONE]", ""), line
            times.append((first_s, last_s))

        await asyncio.gather(*(ask(first_number + i) for i in range(clients)))
    return Round.of(began_s, times, tokens)


def run_clients() -> None:
    """The other process: a line of JSON says what to ask, one says how it went."""
    for line in sys.stdin:
        done = asyncio.run(ask_over_http(**json.loads(line)))
        print(json.dumps(asdict(done)), flush=True)


class Clients:
    """The other process, seen from here."""

    def __init__(self, url: str, model: str) -> None:
        self._given = {"url": url, "model": model}
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--clients"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, first_number: int, clients: int, tokens: int) -> Round:
        """Have them ask."""
        assert self._process.stdin is not None and self._process.stdout is not None
        asked = {**self._given, "first_number": first_number, "clients": clients, "tokens": tokens}
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return Round(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        """End them."""
        self._process.communicate("")


def measure(arguments: argparse.Namespace) -> list[dict[str, float]]:
    """Return a row for each number of clients."""
    settings = Settings(model=arguments.model, threads=arguments.threads)
    shelf = Shelf(arguments.model)
    engine = Engine(partial(load_core, shelf.default.opened.result, settings))
    server = HttpServer(ServerSettings(port=0), settings.sampling)
    server.attach(engine, shelf.default.chat, EmptyShelf())
    is_ready = threading.Event()
    engine.add_listener(
        lambda events: is_ready.set() if any(isinstance(e, ReadyEvent) for e in events) else None
    )
    shelf.open_default()
    engine.start()
    server.start()
    assert is_ready.wait(600)
    model = shelf.default.chat.result()
    direct = Direct(engine, model)
    over_http = Clients(f"http://{server.address}", model.name)
    ways: dict[str, Direct | Clients] = {"direct": direct, "http": over_http}
    rows: list[dict[str, float]] = []
    number = 1_000
    for clients in CLIENTS:
        rounds: dict[str, list[Round]] = {name: [] for name in ways}
        cpu_s = dict.fromkeys(ways, 0.0)
        for count in range(arguments.rounds + 1):
            for name, way in ways.items():
                began_s = time.process_time()
                done = way.run(number, clients, arguments.tokens)
                number += clients
                if count:  # the first ones warm up
                    rounds[name].append(done)
                    cpu_s[name] += time.process_time() - began_s
        num_tokens = arguments.rounds * clients * arguments.tokens
        cpu_ms = {f"{name}_cpu_ms_per_token": 1e3 * cpu_s[name] / num_tokens for name in ways}
        rows.append({**_row(clients, rounds), **cpu_ms})
    over_http.close()
    engine.close()
    server.close()
    return rows


def _row(clients: int, rounds: dict[str, list[Round]]) -> dict[str, float]:
    pairs = list(zip(rounds["direct"], rounds["http"], strict=True))
    return {
        "clients": clients,
        "direct_tokens_per_s": statistics.median(a.tokens_per_s for a, _ in pairs),
        "http_tokens_per_s": statistics.median(b.tokens_per_s for _, b in pairs),
        "throughput_ratio": statistics.median(b.tokens_per_s / a.tokens_per_s for a, b in pairs),
        "direct_ttft_ms": statistics.median(a.ttft_ms for a, _ in pairs),
        "http_ttft_ms": statistics.median(b.ttft_ms for _, b in pairs),
    }


def main() -> None:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--tokens", type=int, default=DEFAULT_ANSWER_TOKENS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/server.json"))
    parser.add_argument("--clients", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.clients:
        run_clients()
        return
    rows = measure(arguments)
    print(f"{arguments.tokens} tokens an answer, {arguments.rounds} rounds of each way\n")
    print("| clients | direct, tok/s | HTTP, tok/s | ratio | TTFT, ms | | CPU a token, ms | |")
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(
            "| {clients} | {direct_tokens_per_s:.0f} | {http_tokens_per_s:.0f} "
            "| ×{throughput_ratio:.3f} | {direct_ttft_ms:.0f} | {http_ttft_ms:.0f} "
            "| {direct_cpu_ms_per_token:.2f} | {http_cpu_ms_per_token:.2f} |".format(**row)
        )
    report = {"model": arguments.model, "answer_tokens": arguments.tokens, "rows": rows}
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
