"""What differs between answers, as the compare screen shows it."""

from __future__ import annotations

from localpaged.engine.params import Request
from localpaged.tui.glyphs import ASCII
from localpaged.tui.screens.compare_dialogs import PageScreen
from testkit.comparing import comparing, finish, texts


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
