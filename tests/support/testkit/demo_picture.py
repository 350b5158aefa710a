"""A picture of the chat UI: `PYTHONPATH=tests/support python -m testkit.demo_picture chat.svg`.

Several chats in different states over a scripted engine, drawn headless; a history of its own.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from localpaged.engine.events import ReadyEvent
from localpaged.paths import HOME_VARIABLE
from localpaged.store.rows import TurnStatus
from testkit.demo_chat import script
from testkit.past_chats import write_chat
from testkit.scripted_engine import ScriptedEngine

SIZE = (140, 40)
READY = ReadyEvent("SmolLM2-135M-Instruct", "cpu", "bfloat16", 8_192, 3.1)
QUESTIONS = (
    "Write a haiku about caches",
    "A long story, please",
    "How does copy-on-write interact with eviction?",
)
STEPS = 130


async def draw(path: Path, *, size: tuple[int, int] = SIZE) -> None:
    """Save the picture as SVG."""
    from testkit.screens import open_service, stage

    write_chat([("Plan a trip", "Day 1: walk.")], title="Trip plan")
    write_chat([("A", "B")], title="Long paper", last_status=TurnStatus.INTERRUPTED)
    engine = ScriptedEngine(script, ready=READY)
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            for number, question in enumerate(QUESTIONS):
                shown.app.commands.run("new_chat")
                await shown.ask(question)
                if number == 0:
                    await shown.answer()
            await shown.step(STEPS)
            # a second beat: the list shows what was read of older chats
            await asyncio.sleep(0.3)
            await shown.beat()
            shown.app.save_screenshot(path.name, str(path.parent))


def main() -> int:
    """Draw into the file named by the first argument."""
    path = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="localpaged-picture-") as home:
        os.environ[HOME_VARIABLE] = home
        asyncio.run(draw(path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
