"""What differs between answers, as the compare screen shows it."""

from __future__ import annotations

import pytest
from textual.strip import Strip

from localpaged.engine.params import Request
from localpaged.tui.glyphs import ASCII
from localpaged.tui.screens.compare_dialogs import PageScreen
from localpaged.tui.widgets.run_text import RunText
from testkit.comparing import comparing, finish, texts
from testkit.sizes import SIZES


async def test_differences_are_marked_with_the_token_where_they_begin():
    async with comparing("/compare n=2 Sky?") as (shown, screen):
        await finish(shown, screen)
        await shown.press("d")
        page = shown.app.screen
        assert isinstance(page, PageScreen)
        assert "first differs at token 4, word 10" in shown.text
        own = [word for text in texts(screen) for word in text.split() if word.startswith("own")]
        assert f"▸{own[0]} {own[1]}" in page.plain
        await shown.press("escape")
        assert shown.app.screen is screen


async def test_whose_words_are_whose_is_seen_without_looks():
    async with comparing("/compare n=2 Sky?", glyphs=ASCII) as (shown, screen):
        await finish(shown, screen)
        await shown.press("d")
        page = shown.app.screen
        assert isinstance(page, PageScreen)
        own = [word for text in texts(screen) for word in text.split() if word.startswith("own")]
        assert f"[-{own[0]}-] {{+{own[1]}+}}" in page.plain
        assert "only in [-1 fake-model-]   only in {+2 fake-model+}" in shown.text


async def test_three_answers_are_compared_two_at_a_time():
    async with comparing("/compare n=3 Sky?") as (shown, screen):
        await finish(shown, screen)
        await shown.press("d")
        assert "differs from?" in shown.text
        await shown.press("3", "d")
        assert "1 fake-model and 3 fake-model" in shown.text
        await shown.press("escape", "d", "escape")
        assert "differs from?" not in shown.text
        assert shown.app.screen is screen


async def test_what_the_looks_of_a_difference_mean_stays_in_view_below_a_long_heading():
    def script(request: Request) -> list[str]:
        return [f"{word}{request.sampling.temperature} " for word in range(200)]

    async with comparing("/compare t=0.2,0.9 Sky?", size=(40, 24), script=script) as (
        shown,
        screen,
    ):
        await finish(shown, screen)
        await shown.press("d")
        assert isinstance(shown.app.screen, PageScreen)
        await shown.until_shown("only in")


@SIZES
async def test_a_difference_of_many_rows_is_painted_where_it_is_in_view(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
):
    def script(request: Request) -> list[str]:
        return ["".join(f"{request.sampling.seed} row {n}\n" for n in range(3_000)), "the end"]

    painted: list[int] = []
    paint = RunText.render_line

    def counted(self: RunText, y: int) -> Strip:
        painted.append(y)
        return paint(self, y)

    monkeypatch.setattr(RunText, "render_line", counted)
    async with comparing("/compare n=2 Sky?", size=size, script=script) as (shown, screen):
        await finish(shown, screen)
        await shown.press("d")
        await shown.until_shown("row 0")
        assert len(painted) < 20 * size[1]
        await shown.press("end")
        await shown.until_shown("the end")
        assert "only in" in shown.text
        assert len(painted) < 40 * size[1]


async def test_a_difference_never_drives_the_terminal():
    def script(request: Request) -> list[str]:
        return [f"[b]x[/b] \x1b]52;c;eA==\x07\u202e{request.sampling.seed}", " 漢字 👩‍👩‍👧"]

    async with comparing("/compare n=2 Sky?", script=script) as (shown, screen):
        await finish(shown, screen)
        await shown.press("d")
        assert "[b]x[/b] ␛]52;c;eA==␇<U+202E>" in shown.text
