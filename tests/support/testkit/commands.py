"""Running commands: each as a program of its own, or in this process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from localpaged.chat.publisher import Subscriber
from localpaged.chat.service import ChatService
from localpaged.cli.main import main
from localpaged.config import Settings
from localpaged.engine.params import Request
from localpaged.engine.port import Listener
from localpaged.models.registry import list_entries
from localpaged.stats.running import tell_stats
from localpaged.store.store import Store
from localpaged.wiring import Share
from testkit.builders import ready_model
from testkit.fake_model import FakeChatModel
from testkit.fake_shelf import FakeShelf
from testkit.scripted_engine import Answer, ScriptedEngine

TIMEOUT_S = 60.0
PIECES_PER_S = 1_000.0

Process = subprocess.Popen[bytes]
Streams = dict[str, Any]

_TESTKIT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Done:
    """A command that has ended."""

    code: int
    out: str
    err: str


def command_line(
    *arguments: str, script: Sequence[str] | None = None, times: int = 1, load_s: float = 0.0
) -> dict[str, Any]:
    """How to start a command as a program of its own: what Popen wants.

    With a `script`, its pieces, `times` over, are every answer, and no model is needed.
    """
    # As users run it: with Python's own buffering.
    env = {**os.environ, "PYTHONUNBUFFERED": ""}
    module = "localpaged"
    if script is not None:
        path = os.pathsep.join(filter(None, (str(_TESTKIT), env.get("PYTHONPATH"))))
        env |= {"PYTHONPATH": path, "SCRIPT": json.dumps([script, times, load_s])}
        module = "testkit.scripted_cli"
    return {"args": [sys.executable, "-m", module, *arguments], "env": env}


def start(*arguments: str, streams: Streams | None = None, **script: Any) -> Process:
    """Start a command; standard streams are pipes unless told."""
    given: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    given |= command_line(*arguments, **script) | (streams or {})
    process: Process = subprocess.Popen(**given)
    return process


def run(*arguments: str, stdin: bytes = b"", streams: Streams | None = None, **script: Any) -> Done:
    """Run a command as a program of its own."""
    with start(*arguments, streams=streams, **script) as process:
        try:
            out, err = process.communicate(stdin, timeout=TIMEOUT_S)
        except BaseException:
            process.kill()
            raise
    return Done(process.returncode, (out or b"").decode(), (err or b"").decode())


def call(*arguments: str, stdin: bytes = b"") -> Done:
    """Run a command in this process, its border included."""
    result = CliRunner().invoke(
        main, arguments, input=stdin, prog_name="localpaged", catch_exceptions=False
    )
    return Done(result.exit_code, result.stdout, result.stderr)


def assert_refused(done: Done, code: int, *parts: str) -> None:
    """The command wrote one sentence, at most a hint, and nothing else; `parts` are in it."""
    assert (done.code, done.out) == (code, "")
    sentence, *rest = done.err.splitlines()
    assert sentence.startswith("localpaged: ")
    assert sentence.endswith((".", "?"))
    assert not rest or (len(rest) == 1 and rest[0].startswith("hint: "))
    for part in parts:
        assert part in done.err


class ScriptedRuns:
    """Stands for `wiring.open_service`: the user's history, answers from a script.

    Each run has an engine of its own; the n-th request of all runs gets the n-th answer, or the
    last one. `listener` is called on the engine's thread.
    """

    def __init__(
        self,
        script: Sequence[Answer | Sequence[str]],
        *,
        open_store: Callable[[], Store] = Store.open,
        listener: Listener | None = None,
        load_s: float = 0.0,
        model: FakeChatModel | None = None,
    ) -> None:
        self._model = model
        self.requests: list[Request] = []
        self._script = script
        self._open_store = open_store
        self._listener = listener
        self._load_s = load_s

    def open_service(
        self,
        settings: Settings,
        *,
        subscriber: Subscriber | None = None,
        command: str = "chat",
        share: Share | None = None,
    ) -> ChatService:
        """Open the history, start an engine, tell stats."""
        engine = ScriptedEngine(self._answer)
        store = self._open_store()
        model = ready_model(self._model)
        shelf = FakeShelf(*(entry.name for entry in list_entries()))
        service = ChatService(
            store=store,
            engine=engine,
            model=model,
            shelf=shelf,
            sampling=settings.sampling,
        )
        if subscriber is not None:
            service.subscribe(subscriber)
        if share is not None:
            share(engine, model, shelf)
        if self._listener is not None:
            engine.add_listener(self._listener)
        engine.start(tokens_per_s=PIECES_PER_S, load_s=self._load_s)
        tell_stats(service, store, command=command, default_model=settings.model)
        return service

    def _answer(self, request: Request) -> Answer | Sequence[str]:
        self.requests.append(request)
        return self._script[min(len(self.requests), len(self._script)) - 1]
