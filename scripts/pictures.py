"""Draws the README's pictures from the running program on the default model.

    python scripts/pictures.py [FOLDER]      # default: docs/images

Opens the chat without a terminal, in a home of its own, asks in several chats at once, looks at
their memory and tokens, compares answers, searches them, and saves what the screen shows.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from textual.events import Paste

from localpaged import paths
from localpaged.config import Settings
from localpaged.engine.params import SamplingParams

if TYPE_CHECKING:
    from textual.app import App
    from textual.pilot import Pilot

    from localpaged.chat.service import ChatService
    from localpaged.tui.app import LocalPagedApp

MODEL_NAME = "smollm2-135m-instruct"
SIZE, WIDE, TALL = (120, 34), (140, 38), (140, 40)
SYSTEM_WIDE_TIMEOUT_S = 120
FIRST = "What is the capital of France?"
STORY = "Tell me a long story about the keeper of a lighthouse."
SLEEP = "Give me five tips for a good night of sleep, with a reason for each."
RECIPE = "A recipe for bread without yeast, please."
COMPARED = "Explain copy-on-write to a child."
SOUGHT = "light"
LIBRARIAN = (
    "You are the librarian of a small town. You know every shelf, you answer in plain words, you "
    "name a book where one helps, and you say so when you do not know. Visitors come with "
    "questions of every kind: about books, about the town and its history, about the weather, "
    "about recipes and repairs. You are patient, you never guess, you keep to what was asked, and "
    "you end with one question back that helps the visitor to find more."
)
LIBRARY_QUESTIONS = (
    "Which book tells of a lighthouse keeper?",
    "How do I bind a book whose spine is loose?",
    "What is the oldest house in town?",
    "A recipe for bread without yeast, please.",
    "Why is the river so low this summer?",
    "Which trees lose their leaves first?",
    "How do I mend a bicycle tyre on the road?",
    "Who painted the ceiling of the town hall?",
    "What should I read after Moby-Dick?",
    "How does an hourglass keep its time?",
)
FOLLOW_UPS = (
    "Where do I find it?",
    "Tell me more, with an example.",
    "Why is that?",
    "What do others say about it?",
)
PER_WAVE, BREATH_S, LULL_S, LATECOMERS = 5, 0.4, 4.0, 4
"""Questions come in waves, so that curves have something to tell."""
LEAST_TOKENS, MORE_TOKENS = 120, 40
"""How long answers may be: some end while others go on."""
BEGUN_TOKENS, STREAMED_TOKENS = 70, 110
LONGEST_ANSWER_TOKENS = 400
SEED = 3
"""The same answers in every run, and some that a small model does well."""


async def draw(folder: Path) -> None:
    """Save every picture into `folder`."""
    from localpaged.tui.app import LocalPagedApp
    from localpaged.wiring import open_service

    sampling = SamplingParams(max_tokens=LONGEST_ANSWER_TOKENS, seed=SEED)
    service = open_service(Settings(model=MODEL_NAME, sampling=sampling))
    try:
        app = LocalPagedApp(service)
        async with app.run_test(size=SIZE) as pilot:
            await _wait(lambda: app.is_opened, pilot)
            await _chat(pilot, service)
            _save(app, folder / "chat.svg")
            await _memory(pilot)
            _save(app, folder / "blocks.svg")
            await _tokens(pilot, service)
            _save(app, folder / "tokens.svg")
            await _compare(pilot, service)
            _save(app, folder / "compare.svg")
            await _history(pilot)
            _save(app, folder / "history.svg")
        await _stats(service, folder / "stats.svg")
    finally:
        service.close()


async def _chat(pilot: Pilot[None], service: ChatService) -> None:
    """Chats and a fork of one of them answer at once."""
    await _ask(pilot, FIRST)
    await _wait(lambda: service.snapshot().generated_tokens > 0, pilot)
    await _wait(lambda: not service.snapshot().sequences, pilot)
    await pilot.pause(0.3)
    await pilot.press("ctrl+f")
    await _ask(pilot, "And what is it known for?")
    for question in (STORY, RECIPE, SLEEP):
        await pilot.press("ctrl+n")
        await _ask(pilot, question)
    await _wait(lambda: _num_shown(pilot) > BEGUN_TOKENS, pilot)


def _num_shown(pilot: Pilot[None]) -> int:
    """How many tokens of the latest answer are on the screen."""
    answer = cast("LocalPagedApp", pilot.app).workspace.current.last_answer
    return answer.token_count if answer else 0


async def _memory(pilot: Pilot[None]) -> None:
    """Their blocks, while they still answer."""
    await pilot.resize_terminal(*WIDE)
    await pilot.press("f3")
    await pilot.pause(1.0)


async def _tokens(pilot: Pilot[None], service: ChatService) -> None:
    """How likely each token of an answer was."""
    await pilot.press("escape")
    await _wait(lambda: not service.snapshot().sequences, pilot)
    await pilot.pause(0.3)
    await pilot.press("tab", "t")
    await pilot.pause(1.0)
    await _wait(lambda: not service.snapshot().sequences, pilot)
    await pilot.press("n")
    await pilot.pause(0.5)


async def _compare(pilot: Pilot[None], service: ChatService) -> None:
    """One prompt, three answers."""
    await pilot.press("escape", "escape", "ctrl+n")
    done = service.snapshot().generated_tokens
    await _ask(pilot, f"/compare n=3 t=0.2,0.7,1.0 {COMPARED}")
    await _wait(lambda: service.snapshot().generated_tokens > done + 3 * STREAMED_TOKENS, pilot)
    await pilot.pause(0.3)


async def _history(pilot: Pilot[None]) -> None:
    """Where a word was said, in any chat or compare."""
    # the first one stops the answers, the second leaves the compare
    await pilot.press("escape")
    await pilot.pause(0.5)
    await pilot.press("escape")
    await pilot.pause(0.5)
    await pilot.press("f6")
    await pilot.pause(0.5)
    await pilot.press(*SOUGHT)
    await pilot.pause(1.5)


async def _stats(service: ChatService, path: Path) -> None:
    """What all of it looks like from another terminal: a busy minute, then the dashboard."""
    from localpaged.tui.stats.app import StatsApp
    from localpaged.tui.stats.socket_source import SocketSource
    from localpaged.tui.theme import DARK

    source = SocketSource()
    app = StatsApp(source, usual_theme=DARK)
    async with app.run_test(size=TALL) as pilot:
        chats = [service.new_chat(system=LIBRARIAN).id for _ in LIBRARY_QUESTIONS]
        service.memory.pin_chat(chats[0], is_system_only=True)
        rounds = [(question, *FOLLOW_UPS) for question in LIBRARY_QUESTIONS]
        for questions in zip(*rounds, strict=True):
            await _wait(lambda: len(service.snapshot().sequences) <= LATECOMERS, pilot)
            for place, (chat, question) in enumerate(zip(chats, questions, strict=True)):
                most = LEAST_TOKENS + MORE_TOKENS * place
                service.send(chat, question, sampling=SamplingParams(max_tokens=most, seed=SEED))
                await pilot.pause(LULL_S if place % PER_WAVE == PER_WAVE - 1 else BREATH_S)
        await pilot.pause(1.5)
        _save(app, path)
    source.close()


async def _ask(pilot: Pilot[None], text: str) -> None:
    pilot.app.screen.focused.post_message(Paste(text))
    await pilot.pause(0.1)
    await pilot.press("enter")


async def _wait(is_true: Callable[[], bool], pilot: Pilot[None]) -> None:
    until_s = time.monotonic() + SYSTEM_WIDE_TIMEOUT_S
    while not is_true():
        if time.monotonic() > until_s:
            raise TimeoutError("the program did not get there")
        await pilot.pause(0.05)


def _save(app: App[None], path: Path) -> None:
    # Without its web fonts the picture is complete in itself.
    picture = re.sub(r"@font-face \{.*?\n    \}", "", app.export_screenshot(), flags=re.DOTALL)
    path.write_text(picture)
    sys.stdout.write(f"{path}\n")


def main() -> None:
    """Draw with the model that is pulled, in a home that is thrown away."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    model = paths.models_dir() / f"{MODEL_NAME}.gguf"
    with tempfile.TemporaryDirectory(prefix="localpaged-pictures-") as home:
        os.environ[paths.HOME_VARIABLE] = home
        models = paths.ensure_private_dir(paths.models_dir())
        (models / model.name).symlink_to(model)
        asyncio.run(draw(folder))


if __name__ == "__main__":
    main()
