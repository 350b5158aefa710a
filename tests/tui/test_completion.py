"""Slash commands are offered while they are typed; no key is taken from a finished one."""

from __future__ import annotations

import gc

import pytest

from localpaged.tui.glyphs import ASCII
from localpaged.tui.keys import BY_SLASH
from localpaged.tui.offers import matching, path_offers
from testkit.screens import LARGE, SMALL, open_service, stage
from testkit.scripted_engine import ScriptedEngine


def names(typed: str) -> list[str]:
    return [action.slash for action in matching(typed)]


def test_what_begins_with_the_typed_comes_before_what_has_it_and_the_finished_first():
    assert names("/the") == ["theme"]
    assert names("/set")[0] == "set"
    assert names("/S") == names("/s")
    assert names("/de")[0] == "delete"
    assert "code" in names("/de")
    assert set(names("/")) == set(BY_SLASH)


@pytest.mark.parametrize("typed", ["", "a", "//x", "/xyzzy", "/set\n", "/quit now", "/home/x"])
def test_what_is_no_command_offers_nothing(typed):
    assert names(typed) == []


def test_behind_a_finished_name_it_tells_what_may_follow():
    assert names("/set temp=") == ["set"]


@pytest.mark.parametrize(("size", "key"), [(SMALL, "tab"), (LARGE, "enter")])
async def test_tab_and_enter_finish_the_marked_one_and_enter_then_runs_it(size, key):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            theme = shown.app.theme
            await shown.press(*"/the")
            assert "› /theme" in shown.text
            assert "Dark or light" in shown.text
            await shown.press("down", "up", key)
            assert shown.prompt.text.rstrip() == "/theme"
            assert shown.app.theme == theme
            await shown.press("enter")
            assert "Which look" in shown.text
            await shown.press(*"light", "enter")
            assert shown.app.theme != theme
            assert "› /theme" not in shown.text
            assert engine.submitted == []


async def test_arrows_move_the_mark_around_and_scroll_it_into_view():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.press("/", "up")
            last = list(BY_SLASH)[-1]
            assert f"› /{last}" in shown.text
            assert shown.text.count("\n    /") + shown.text.count("\n  › /") == 6
            await shown.press("down")
            assert f"› /{next(iter(BY_SLASH))}" in shown.text


async def test_escape_closes_until_another_command_begins_and_stops_nothing():
    engine = ScriptedEngine([["word "] * 200])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("x")
            await shown.step(3)
            await shown.press("/", "escape")
            assert "› /" not in shown.text
            assert shown.last_answer.is_open
            assert not shown.last_answer.is_stopping
            await shown.press("t")
            assert "› /" not in shown.text
            await shown.press("backspace", "backspace", "/")
            assert "› /" in shown.text
            await shown.press("escape", "escape")
            assert shown.last_answer.is_stopping


async def test_enter_behind_a_finished_command_runs_it_though_others_begin_alike():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.press(*"/seed")
            await shown.press("space", "7", "enter")
            assert shown.prompt.text == ""
            assert "seed" in service.chats()[0].options


async def test_up_is_the_history_again_when_nothing_is_offered():
    engine = ScriptedEngine(lambda request: ("ok",))
    with open_service(engine) as service:
        async with stage(service, engine, glyphs=ASCII) as shown:
            await shown.ask("first")
            await shown.answer()
            await shown.press("/")
            assert "  > /" in shown.text
            await shown.press("backspace", "up")
            assert shown.prompt.text == "first"


async def test_a_click_finishes_a_command_and_a_low_terminal_offers_one():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.press("/")
            await shown.pilot.click("#suggestions", offset=(6, 2))
            await shown.settle()
            assert shown.prompt.text.strip() == f"/{list(BY_SLASH)[2]}"
            shown.prompt.text = ""
            await shown.resize(30, 8)
            await shown.press("/")
            assert shown.app.chat.suggestions.size.height == 2
            assert "❯ /" in shown.text


def test_paths_are_offered_folders_first_and_hidden_ones_when_asked_for(tmp_path, monkeypatch):
    for name in ("b.txt", ".hidden", "[a] \x1b b.md"):
        (tmp_path / name).write_text("xxxx")
    (tmp_path / "z").mkdir()
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    offers = path_offers("/attach", f"{tmp_path}/")
    assert [offer.name for offer in offers] == ["z/", "[a] ␛ b.md", "b.txt", "gone"]
    assert offers[0].text == f"/attach {tmp_path}/z/"
    assert (offers[2].label, offers[0].label) == ("4 B", "folder")
    assert [offer.text for offer in path_offers("/attach", "b")] == ["/attach b.txt"]
    assert [offer.text for offer in path_offers("/attach", "~/.h")] == ["/attach ~/.hidden"]
    for nothing in ("/nowhere/", "b.txt/", "a\x00/", "~nobody-at-all/"):
        assert path_offers("/attach", nothing) == ()


async def test_tab_goes_down_folders_and_enter_attaches_what_is_typed(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "one.txt").write_text("one")
    (tmp_path / "notes" / "two.txt").write_text("two")
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.write(f"/attach {tmp_path}/n")
            await shown.until_shown("› notes/")
            await shown.press("tab")
            assert shown.prompt.text == f"/attach {tmp_path}/notes/"
            await shown.until_shown("› one.txt")
            await shown.press("down", "enter")
            assert shown.prompt.text == f"/attach {tmp_path}/notes/two.txt"
            await shown.press("enter")
            await shown.until(lambda: "[two.txt 1 line" in shown.prompt.text)


@pytest.mark.filterwarnings("error")
async def test_what_is_typed_faster_than_paths_are_looked_for_leaves_nothing_undone():
    with open_service(ScriptedEngine()) as service:
        async with stage(service, ScriptedEngine(), is_loaded=False) as shown:
            await shown.write("/import ")
            # each replaces the search before it, which has not begun
            for typed in "abcdef":
                shown.prompt.insert(typed)
                shown.app.commands.completion.refresh()
                shown.app.commands.completion.refresh()
            await shown.settle()
            gc.collect()
