"""With ASCII alone nothing else is on the screen, whatever is shown: Textual's own parts, too."""

from __future__ import annotations

from localpaged.tui.ascii_filter import TWINS
from localpaged.tui.glyphs import ASCII
from testkit.past_chats import write_chat
from testkit.screens import open_service, screen_lines, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n\n---\n\n> quoted\n\n- one\n\n```\ncode\n```\n"


@SIZES
async def test_every_screen_is_drawn_in_ascii(size):
    write_chat([(f"question {number}", TABLE * 3) for number in range(4)])
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size, glyphs=ASCII) as shown:

            def not_ascii() -> list[str]:
                return [line for line in screen_lines(shown.app) if not line.isascii()]

            assert not not_ascii()
            shown.transcript.focus()
            await shown.press("k", "k")
            assert not not_ascii()
            await shown.press("[")
            assert not not_ascii()
            for keys in (["f3"], ["f1"], ["ctrl+p"], ["ctrl+s"], ["ctrl+o"], ["f6"]):
                await shown.press(*keys)
                await shown.beat()
                assert shown.dialog is not None
                assert not not_ascii(), keys
                await shown.press("escape")
                await shown.until(lambda: shown.dialog is None)
            await shown.write("/")
            assert not not_ascii()


def test_a_twin_takes_one_cell():
    assert all(len(twin) == 1 and twin.isascii() for twin in TWINS.values())
