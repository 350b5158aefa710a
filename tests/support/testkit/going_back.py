"""What tests of going back in a chat do with the app: ask, answer, read, look at its lines."""

from __future__ import annotations

from testkit.screens import Stage
from testkit.scripted_engine import ScriptedEngine


def numbered() -> ScriptedEngine:
    """Answers "answer 1", "answer 2", …, a word a step."""
    engine = ScriptedEngine(
        lambda request: (f"answer {len(engine.submitted) + 1}", " done", " really")
    )
    return engine


async def answered(shown: Stage, *texts: str) -> None:
    for text in texts:
        await shown.ask(text)
        await shown.answer()


async def finish(shown: Stage) -> None:
    """Let the engine answer until the app has nothing to wait for."""

    def is_done() -> bool:
        shown.engine.run_until_idle()
        return not shown.app.workspace.running

    await shown.until(is_done)
    await shown.beat()


async def read(shown: Stage, *keys: str) -> None:
    """Go to the transcript and press keys there."""
    shown.transcript.focus()
    await shown.settle()
    await shown.press(*keys)


def lines(shown: Stage) -> list[str]:
    return [entry.text for entry in shown.app.workspace.current.entries]
