"""Draws the README's pictures from the running program on the default model.

    python scripts/pictures.py [FOLDER]      # default: docs/images

Opens the chat without a terminal, in a home of its own, asks in two chats at once and saves what
the screen shows while both answer.
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
from typing import TYPE_CHECKING

from textual.events import Paste

from localpaged import paths
from localpaged.config import Settings

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from localpaged.tui.app import LocalPagedApp

MODEL_NAME = "smollm2-135m-instruct"
SIZE = (120, 34)
SYSTEM_WIDE_TIMEOUT_S = 120
FIRST = "What is the capital of France?"
QUESTIONS = (
    "Tell me a long story about the keeper of a lighthouse.",
    "Explain step by step how bread is made, as a numbered list.",
)
STREAMED_TOKENS = 110


async def draw(folder: Path) -> None:
    """Save every picture into `folder`."""
    from localpaged.tui.app import LocalPagedApp
    from localpaged.wiring import open_service

    service = open_service(Settings(model=MODEL_NAME))
    try:
        app = LocalPagedApp(service)
        async with app.run_test(size=SIZE) as pilot:
            await _ask(pilot, FIRST)
            await _wait(lambda: service.snapshot().generated_tokens > 0, pilot)
            await _wait(lambda: not service.snapshot().sequences, pilot)
            for question in QUESTIONS:
                await pilot.press("ctrl+n")
                await _ask(pilot, question)
            done = service.snapshot().generated_tokens
            await _wait(
                lambda: service.snapshot().generated_tokens > done + 2 * STREAMED_TOKENS, pilot
            )
            await pilot.pause(0.3)
            _save(app, folder / "chat.svg")
    finally:
        service.close()


async def _ask(pilot: Pilot[int], text: str) -> None:
    pilot.app.screen.focused.post_message(Paste(text))
    await pilot.pause(0.1)
    await pilot.press("enter")


async def _wait(is_true: Callable[[], bool], pilot: Pilot[int]) -> None:
    until_s = time.monotonic() + SYSTEM_WIDE_TIMEOUT_S
    while not is_true():
        if time.monotonic() > until_s:
            raise TimeoutError("the program did not get there")
        await pilot.pause(0.05)


def _save(app: LocalPagedApp, path: Path) -> None:
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
