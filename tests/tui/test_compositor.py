"""Our screens' compositor paints what Textual's does, of fewer rows, and loses nothing new."""

from __future__ import annotations

import random

import pytest
from textual._compositor import Compositor
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.screen import Screen
from textual.widgets import Static

from localpaged.tui.compositor import FrugalCompositor, OwnScreen
from testkit.glass import Glass
from testkit.past_chats import write_chat
from testkit.screens import open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

OVER_THE_CHAT = ((), ("f1",), ("ctrl+p",), ("f3",), ("f6",))


def a_region(numbers: random.Random, width: int, height: int) -> Region:
    x, y = numbers.randrange(-3, width), numbers.randrange(-3, height)
    return Region(x, y, numbers.randrange(1, width), numbers.randrange(1, 9))


@SIZES
async def test_what_is_written_is_what_textual_would_write(size):
    write_chat([("q", "some **words**\n\n- a\n- b\n\n" * 20)] * 4)
    engine = ScriptedEngine()
    numbers = random.Random(7)
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            for keys in OVER_THE_CHAT:
                await shown.press(*keys)
                compositor = shown.app.screen._compositor
                assert isinstance(compositor, FrugalCompositor)
                for _ in range(60):
                    dirty = {a_region(numbers, *size) for _ in range(numbers.randrange(1, 5))}
                    ours, theirs = (
                        written(shown.app, update, dirty)
                        for update in (FrugalCompositor, Compositor)
                    )
                    assert ours.rows == theirs.rows
                if keys:
                    await shown.press("escape")


def written(app: App[None], kind: type[Compositor], dirty: set[Region]) -> Glass:
    """What that kind of compositor writes on a blank terminal when so much is dirty."""
    compositor = app.screen._compositor
    screen = app.size.region
    compositor._dirty_regions = {seen for each in dirty if (seen := screen.intersection(each))}
    glass = Glass(*app.size)
    if (update := kind.render_partial_update(compositor)) is not None:
        glass.write(update.render_segments(app.console))
    return glass


class _Rows(App[None]):
    def __init__(self, screen: type[Screen[None]]) -> None:
        super().__init__()
        self._screen_type = screen

    def get_default_screen(self) -> Screen[None]:
        return self._screen_type()

    def compose(self) -> ComposeResult:
        yield VerticalScroll(*(Static(f"row {n}") for n in range(100)))


@pytest.mark.parametrize(("screen", "is_known_new"), [(Screen, False), (OwnScreen, True)])
async def test_a_part_that_is_asked_for_before_it_is_laid_out_is_new(screen, is_known_new):
    """Where Textual's own screen passes as well, our compositor need not keep a map any more."""
    async with _Rows(screen).run_test() as pilot:
        shown = pilot.app.screen
        compositor = shown._compositor
        rows = shown.query_one(VerticalScroll)
        compositor.reflow_visible(shown, shown.size)  # as scrolling does
        new = Static("new")
        with pilot.app.batch_update():  # nothing is laid out in between
            await rows.mount(new, before=0)
            assert new in compositor.full_map
            assert (new in compositor.reflow(shown, shown.size).shown) is is_known_new


@pytest.mark.parametrize(("screen", "is_painted"), [(Screen, False), (OwnScreen, True)])
async def test_a_part_that_changes_while_another_one_stands_in_its_place_for_now_is_painted(
    screen, is_painted
):
    """A notice or a list is as large as it likes until it is styled; nobody ever sees it so."""
    async with _Rows(screen).run_test() as pilot:
        shown = pilot.app.screen
        compositor = shown._compositor
        rows = shown.query_one(VerticalScroll)
        row = rows.query(Static).first()
        compositor.reflow_visible(shown, shown.size)
        with pilot.app.batch_update():
            await rows.mount(tall := Static("tall\n" * 99), before=0)
            assert row in compositor.full_map
            row.refresh()
            compositor._dirty_regions.clear()
            compositor.update_widgets({row})
            tall.display = False
            compositor.reflow(shown, shown.size)
            assert (Region(0, 0, *row.size) in compositor._dirty_regions) is is_painted


async def test_a_part_without_cells_that_changes_before_a_layout_leaves_nothing_to_paint():
    async with _Rows(OwnScreen).run_test() as pilot:
        shown = pilot.app.screen
        compositor = shown._compositor
        row = shown.query(Static).first()
        row.styles.height = 0
        await pilot.pause()
        compositor.reflow_visible(shown, shown.size)
        with pilot.app.batch_update():
            assert row in compositor.full_map
            compositor.update_widgets({row})
            compositor.reflow(shown, shown.size)
            assert row in compositor.visible_widgets
            assert all(compositor._dirty_regions)
