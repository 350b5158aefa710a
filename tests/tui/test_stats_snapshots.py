"""The dashboard's views as text at the usual sizes; accepted as `test_snapshots.py` tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.tui.glyphs import ASCII
from testkit.dashboards import dashboard
from testkit.screens import SMALL
from testkit.scripted_stats import ScriptedSource, model, snapshot
from testkit.snapshots import BOTH, Album

NARROW = (40, 16)
FOLDER = Path(__file__).with_name("stats_snapshots")


@pytest.fixture
def album() -> Album:
    return Album(FOLDER)


def test_every_kept_picture_is_taken_by_a_test():
    source = Path(__file__).read_text(encoding="utf-8")
    for path in FOLDER.iterdir():
        assert f'"{path.stem.rpartition("-")[0]}"' in source, f"nothing takes {path.name}"


async def test_its_views_and_what_lies_over_them(album):
    async with dashboard(ScriptedSource(a=snapshot())) as shown:
        await album.take(shown, "overview", sizes=(*BOTH, NARROW))
        for key, name in (("c", "chats"), ("m", "map"), ("t", "tree")):
            await shown.resize(*SMALL)
            await shown.press(key)
            await album.take(shown, name)
        await shown.press("f1")
        await album.take(shown, "help")
    album.check()


async def test_engines_that_end_that_are_several_and_that_are_not_there(album):
    source = ScriptedSource(b=snapshot(2, model("other")), a=snapshot())
    async with dashboard(source) as shown:
        await album.take(shown, "several", sizes=(SMALL,))
        del source.running["a"], source.running["b"]
        await shown.look()
        shown.clock[0] += 75.0
        await album.take(shown, "ended")
    async with dashboard(ScriptedSource()) as shown:
        await album.take(shown, "none", sizes=(*BOTH, NARROW))
    album.check()


async def test_ascii_alone(album):
    async with dashboard(ScriptedSource(a=snapshot()), glyphs=ASCII) as shown:
        await album.take(shown, "ascii")
        await shown.resize(*SMALL)
        await shown.press("m")
        await album.take(shown, "ascii-map", sizes=(SMALL,))
    album.check()
