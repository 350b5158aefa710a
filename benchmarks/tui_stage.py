"""One run of the program for benchmarks/tui.py: scripted or real, with a screen or without.

    python benchmarks/tui_stage.py scripted|headless|list|panes PANES SECONDS

Writes report.json into LOCALPAGED_HOME and ends by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localpaged import paths
from localpaged.engine.events import ReadyEvent
from localpaged.engine.params import SamplingParams
from localpaged.tui.terminal import taken

if TYPE_CHECKING:
    from localpaged.chat.service import ChatService

TICK_S = 0.01
TOKENS_PER_S = 60.0
PAST_TURNS = 1_000
CONTEXT_TOKENS = 1_000_000
"""Room for all that was said: how a full context is told is not what is measured."""
PROSE = "Some **words** with `code`, long enough to wrap once or twice in a pane.\n\n- a\n- b\n\n"
CODE = "```python\ndef f(x):\n    return x + 1  # one more\n```\n\n"
QUESTION = "Tell a long story about the keeper of a lighthouse."
START_TIMEOUT_S = 90.0


def scripted(panes: int, seconds: float) -> None:
    """Stream scripted answers into the panes of a comparison; write how late the loop was."""
    from testkit.past_chats import write_chat
    from testkit.screens import open_service
    from testkit.scripted_engine import ScriptedEngine

    write_chat([(f"question {n}", PROSE + CODE) for n in range(PAST_TURNS)])
    text = (PROSE * 3 + CODE) * 400
    engine = ScriptedEngine(
        [[text[at : at + 4] for at in range(0, len(text), 4)]],
        ready=ReadyEvent("scripted", "cpu", "float32", CONTEXT_TOKENS, 0.0),
        prefill_tokens_per_step=CONTEXT_TOKENS,
        total_blocks=CONTEXT_TOKENS,
    )
    with open_service(engine) as service:
        engine.start(tokens_per_s=TOKENS_PER_S)
        lags_ms = _run_app(service, panes, seconds)
        rate = service.snapshot().generated_tokens
    _write({"lags_ms": lags_ms, "tokens_per_s_a_pane": rate / panes / seconds})


def _run_app(service: ChatService, panes: int, seconds: float) -> list[float]:
    from localpaged.tui.app import LocalPagedApp

    app = LocalPagedApp(service)
    lags_ms: list[float] = []

    async def watch() -> None:
        app.commands.told["compare"](f"n={panes} {QUESTION}")
        while len(service.snapshot().sequences) < panes:
            await asyncio.sleep(TICK_S)
        app.tell("streaming", for_s=5.0)
        until_s = time.perf_counter() + seconds
        while (due_s := time.perf_counter() + TICK_S) < until_s:
            await asyncio.sleep(TICK_S)
            lags_ms.append((time.perf_counter() - due_s) * 1_000)
        app.exit()

    def begin() -> None:
        while not (app.is_opened and app.workspace.engine.ready is not None):
            time.sleep(TICK_S)
        app.call_from_thread(app.run_worker, watch())

    threading.Thread(target=begin, daemon=True).start()
    app.run()
    return lags_ms


def real(panes: int, seconds: float, mode: str) -> None:
    """Let the default model write `panes` answers; write its tokens a second.

    `mode`: headless without a screen, list with one chat shown and the others in the list, panes
    side by side.
    """
    from localpaged.chat.compare import make_specs
    from localpaged.config import Settings
    from localpaged.models.catalogue import DEFAULT_MODEL
    from localpaged.wiring import open_service

    # answers that end by themselves would leave the others more of the machine
    endless = SamplingParams(temperature=0, ignore_eos=True)
    service = open_service(Settings(model=DEFAULT_MODEL, sampling=endless))
    rates: list[tuple[float, float]] = []
    try:
        if mode != "headless":
            from localpaged.tui.app import LocalPagedApp

            app = LocalPagedApp(service)

            def measure() -> None:
                while not app.is_opened:
                    time.sleep(TICK_S)
                if mode == "panes":
                    app.call_from_thread(app.commands.told["compare"], f"n={panes} {QUESTION}")
                else:
                    for _ in range(panes):
                        app.call_from_thread(app.commands.chats.new)
                        app.call_from_thread(app.workspace.send, QUESTION)
                    app.call_from_thread(app.chat.show_current)
                rates.append(_measure(service, panes, seconds))
                app.call_from_thread(app.exit)

            threading.Thread(target=measure, daemon=True).start()
            app.run()
        else:
            service.compares.start(QUESTION, make_specs(num_samples=panes))
            rates.append(_measure(service, panes, seconds))
    finally:
        service.close()
    tokens_per_s, screen_share = rates[0]
    _write({"tokens_per_s": tokens_per_s, "screen_share": screen_share})


def _measure(service: ChatService, panes: int, seconds: float) -> tuple[float, float]:
    """Count what is generated while all answers are written.

    Return tokens a second, and how much of a core's time the main thread took: the latter tells
    something on a busy machine as well.
    """
    until_s = time.perf_counter() + START_TIMEOUT_S
    while sum(view.state == "decode" for view in service.snapshot().sequences) < panes:
        if time.perf_counter() > until_s:
            raise TimeoutError("the chats never answered together")
        time.sleep(0.05)
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    clock = time.pthread_getcpuclockid(main_thread)
    started_s, before = time.perf_counter(), service.snapshot().generated_tokens
    busy_from_s = time.clock_gettime(clock)
    time.sleep(seconds)
    busy_s = time.clock_gettime(clock) - busy_from_s
    after, ended_s = service.snapshot().generated_tokens, time.perf_counter()
    return (after - before) / (ended_s - started_s), busy_s / (ended_s - started_s)


def _write(report: dict[str, Any]) -> None:
    path = Path(os.environ[paths.HOME_VARIABLE]) / "report.json"
    path.write_text(json.dumps(report))


def main() -> None:
    """Run what the arguments say."""
    mode, panes, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    with taken(paths.log_file()):
        if mode == "scripted":
            scripted(panes, seconds)
        else:
            real(panes, seconds, mode)


if __name__ == "__main__":
    main()
