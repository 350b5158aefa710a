"""The dashboard: what it tells at both sizes, each of its keys, how it looks."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len
from textual.binding import Binding

from localpaged.stats.schema import ChatStats, HostTier, Latency, Slots, Totals
from localpaged.tui.glyphs import ASCII
from localpaged.tui.screens.help import HelpScreen
from localpaged.tui.stats.keys import KEYS
from localpaged.tui.stats.screen import StatsScreen
from localpaged.tui.theme import ANSI, LIGHT, PLAIN
from testkit.dashboards import dashboard
from testkit.screens import LARGE, SMALL, key_event
from testkit.scripted_stats import CHAT_ROWS, NOON_S, ScriptedSource, model, snapshot
from testkit.sizes import SIZES

HOSTILE = "\x1b[31m[b]$x[/b]\x1b]52;c;x\x07\u202eevil\u200b\n漢字\udcff"
VIEWS = {"o": "Overview", "c": "Chats", "m": "Map", "t": "Tree"}


def one(**changes) -> ScriptedSource:
    return ScriptedSource(a=snapshot(4_121, model(**changes)))


def shown_view(shown):
    return shown.lines[1].split("❯")[1].split()[0]


def span_of_curves(shown):
    return [line for line in shown.lines if " ago " in line][-1].split(" ago")[0]


# what it tells


@SIZES
async def test_the_overview_tells_memory_classes_fill_rates_latencies_and_counts(size):
    totals = replace(model().totals, block_copies=3, evicted_blocks=17, preemptions=5)
    async with dashboard(one(totals=totals), size=size) as shown:
        text = " ".join(shown.text.split())
        for told in ("SmolLM2-135M-Instruct", "live", "chat 4121", "up 41:07", "1.2 GiB"):
            assert told in text
        for word, share in (("active", 31), ("pinned", 2), ("cached", 22), ("free", 45)):
            assert f"{word} {share}" in text
        assert "98 % filled of those held" in text
        assert "hits 87 %" in text and "84k tok" in text and "1.8 GiB saved" in text
        for told in ("decode tok/s 188", "prefill tok/s 2.7k", "110ms 420ms", "17ms 24ms"):
            assert told in text
        for told in ("batch rows a step 5", "queue waiting 1", "copies blocks 3"):
            assert told in text
        assert "evictions blocks 17" in text and "preemptions 5" in text


@SIZES
async def test_a_cards_steps_are_told_to_be_recorded_or_why_they_are_not(size):
    async with dashboard(one(device="cuda:0"), size=size) as shown:
        assert "decode steps" in shown.text
    note = f"CUDA graphs are switched off.{HOSTILE}"
    async with dashboard(one(device="cuda:0", runner_note=note), size=size) as shown:
        assert "CUDA graphs" in shown.text
        assert all(cell_len(line) <= size[0] for line in shown.lines)
    async with dashboard(one(), size=size) as shown:
        assert "decode steps" not in shown.text


@SIZES
async def test_each_curve_has_a_scale_and_its_time(size):
    async with dashboard(one(), size=size) as shown:
        lines = shown.lines
        (place,) = [n for n, line in enumerate(lines) if line.strip().startswith("decode")]
        assert lines[place + 1].split()[0] == "200"
        assert " ago " in shown.text and " now" in shown.text


@SIZES
async def test_chats_are_listed_with_own_and_shared_blocks_and_states(size):
    async with dashboard(one(), size=size) as shown:
        await shown.press("c")
        rows = {
            line.strip(" ●◐◌▄"): line for line in shown.lines if "decode" in line or "#1" in line
        }
        (radix,) = [line for line in rows if line.startswith("Radix tree question")]
        assert radix.split()[3:7] == ["decode", "3,121", "31", "170"]
        assert any("waiting #1" in line for line in rows)
        assert "prefill 61 %" in shown.text and "a chat without a title" in shown.text


async def test_the_cursor_of_the_table_is_in_the_first_row_until_it_is_moved():
    async with dashboard(one(), size=SMALL) as shown:
        assert shown.screen.table.chosen == CHAT_ROWS[0]
        later = replace(CHAT_ROWS[0], state="cached")
        shown.source.running["a"] = snapshot(4_121, model(chats=(later, *CHAT_ROWS[1:])))
        await shown.look()
        assert shown.screen.table.chosen == CHAT_ROWS[2]


async def test_host_memory_has_curves_where_there_is_any():
    async with dashboard(one(), size=LARGE) as shown:
        assert "host" not in shown.text
        shown.source.running["a"] = snapshot(4_121, model(host=HostTier(1_024, 300)))
        await shown.look()
        assert "300 of 1,024 blocks" in shown.text and "from the host" in shown.text


async def test_what_is_not_known_yet_is_said_so():
    fresh = model(
        slots=Slots(),
        totals=Totals(),
        ttft=Latency(),
        inter_token=Latency(),
        chats=(),
        history=None,
    )
    fresh = replace(fresh, history=replace(model().history, ttft_p50_ms=(), ttft_p95_ms=()))
    async with dashboard(ScriptedSource(a=snapshot(1, fresh)), size=LARGE) as shown:
        assert shown.text.count("none yet") == 2 and "none held" in shown.text
        assert "No chat has KV memory here yet." in shown.text
        (place,) = [n for n, line in enumerate(shown.lines) if "first token" in line]
        assert "1.0ms" not in shown.lines[place + 1]


async def test_graphics_memory_is_told_where_the_pool_is_in_it():
    gib = 1 << 30
    told = snapshot(1, model(device="NVIDIA H200"))
    memory = replace(told.memory, device_total_bytes=139 * gib, device_free_bytes=100 * gib)
    source = ScriptedSource(a=replace(told, memory=memory))
    async with dashboard(source, size=LARGE) as shown:
        assert "NVIDIA H200" in shown.text and "39.0 GiB of 139.0 GiB" in shown.text


async def test_the_title_tells_device_and_numbers_as_the_chat_does():
    async with dashboard(one(device="cpu", dtype="int8"), size=LARGE) as shown:
        assert "SmolLM2-135M-Instruct  cpu · int8 " in shown.lines[0]


async def test_the_title_rather_tells_the_program_than_numbers_that_are_cut():
    async with dashboard(one(device="cpu", dtype="int8"), size=SMALL) as shown:
        assert "SmolLM2-135M-Instruct  cpu  " in shown.lines[0]
        assert "chat 4121" in shown.lines[0]


# keys


def test_no_key_is_bound_twice_and_every_action_but_moving_has_one():
    keys = [key for action in KEYS for key in action.keys.split(",") if key]
    assert len(keys) == len(set(keys))
    assert [action.id for action in KEYS if not action.keys] == ["move"]
    bound = {binding.id for binding in StatsScreen.BINDINGS if isinstance(binding, Binding)}
    assert bound == {action.id for action in KEYS if action.keys}


@SIZES
async def test_views_have_keys_numbers_and_names_to_click_and_tab_goes_through_them(size):
    async with dashboard(one(), size=size) as shown:
        for number, (key, name) in enumerate(VIEWS.items(), start=1):
            await shown.press(key)
            assert shown_view(shown) == name
            assert shown.lines[-1].rstrip().endswith("F1 help   q quit")
            assert "Space pause" in shown.lines[-1]
            await shown.press("escape")
            assert shown_view(shown) == "Overview"
            await shown.press(str(number))
            assert shown_view(shown) == name
        for name in ("Overview", "Chats", "Map", "Tree"):
            await shown.press("tab")
            assert shown_view(shown) == name
        await shown.press("shift+tab")
        assert shown_view(shown) == "Map"
        await shown.pilot.click("#stats-tabs", offset=(shown.lines[1].index("Tree"), 0))
        await shown.look()
        assert shown_view(shown) == "Tree"


@SIZES
async def test_a_picture_is_held_looked_at_more_or_less_often_and_zoomed(size):
    async with dashboard(one(), size=size) as shown:
        await shown.press("space")
        asked = len(shown.source.asked)
        assert "paused" in shown.text and "Space go on" in shown.lines[-1]
        assert " then" in shown.text and " now" not in shown.text
        await shown.press("space")
        assert "live" in shown.text and len(shown.source.asked) > asked
        spans = [span_of_curves(shown)]
        for _ in range(5):
            await shown.press("z")
            spans.append(span_of_curves(shown))
        assert len(set(spans)) == 5 and spans[0] == spans[-1]
        shown.screen.watched.interval_s = 1.0
        await shown.press("plus", "equals_sign", "plus")
        assert shown.screen.watched.interval_s == 0.5
        await shown.press("minus", "minus", "minus", "minus", "minus", "minus")
        assert shown.screen.watched.interval_s == 10.0
        assert size == SMALL or "every 10 s" in shown.text


@SIZES
async def test_the_table_is_sorted_by_each_column_both_ways_and_by_a_click(size):
    async with dashboard(one(), size=size) as shown:
        await shown.press("c")
        table = shown.screen.table
        assert table.order.column.name == "state"
        await shown.press("s")
        assert table.order.column.name == "tokens" and "tokens ▼" in shown.text
        titles = [chat.title for chat in table.order.of(CHAT_ROWS)]
        assert titles[0] == "Translate the manual" and table.chosen.title == titles[0]
        await shown.press("r")
        assert "tokens ▲" in shown.text and table.chosen.title == ""
        (head,) = [n for n, line in enumerate(shown.lines) if "tokens ▲" in line]
        x = shown.lines[head].index("title")
        await shown.pilot.click("#stats-table-head", offset=(x, 0))
        assert table.order.column.name == "title"
        await shown.pilot.click("#stats-table-head", offset=(x, 0))
        await shown.settle()
        assert "title ▼" in shown.text


@SIZES
async def test_map_and_tree_are_moved_over_and_the_map_has_four_colourings(size):
    async with dashboard(one(), size=size) as shown:
        await shown.press("c", "j", "j")
        chosen = shown.screen.table.chosen
        assert chosen.title == "Translate the manual"
        await shown.press("k", "G", "g", "down", "down")
        assert shown.screen.table.chosen == chosen
        shown.source.running["a"] = snapshot(4_121, model(chats=CHAT_ROWS[1:]))
        await shown.look()
        assert shown.screen.table.chosen == chosen
        await shown.press("m", "l", "l", "h")
        assert shown.screen.memory.block_map.cursor == 1 and "block 1 · pinned" in shown.text
        for words in (
            ("cached, nobody", "1"),
            ("now", "5 min"),
            ("in use", "pinned"),
            ("by chat",),
        ):
            await shown.press("v")
            assert all(word in shown.text for word in words)
        await shown.press("t")
        (top,) = [line for line in shown.lines if "5 chats" in line]
        assert top.split() == ["5", "chats", "P", "24", "b", "×5", "saves", "96"]
        assert "├ 2 chats" in shown.text and "└ Haiku about caches" in shown.text
        assert "8 branches · 250 blocks · 201 deep" in shown.text
        assert "sharing saves 412 blocks" in shown.text
        await shown.press("j")
        assert shown.screen.memory.prefix_tree.chosen.id == 2 and "146 blocks" in shown.text


async def test_a_tree_that_is_told_in_part_says_so():
    tree = replace(model().tree, num_branches=1_208)
    async with dashboard(one(tree=tree), size=LARGE) as shown:
        await shown.press("t")
        assert "1,200 smaller ones are not listed" in shown.text


async def test_a_large_screen_has_map_and_tree_at_once():
    async with dashboard(one(), size=LARGE) as shown:
        for key in "mt":
            await shown.press(key)
            assert "by chat" in shown.text and "├ 2 chats" in shown.text
        await shown.resize(*SMALL)
        assert "by chat" not in shown.text


@SIZES
async def test_the_help_has_every_key_of_the_table_and_the_picture_is_copied_as_json(size):
    async with dashboard(one(), size=size) as shown:
        for key in ("f1", "question_mark"):
            await shown.press(key)
            assert isinstance(shown.app.screen, HelpScreen)
            page = str(shown.app.screen._page)
            assert all(f"{action.usual} " in page and action.label in page for action in KEYS)
            await shown.press("escape")
            assert shown.app.screen is shown.screen
        await shown.press("y")
        assert '"schema_version": "1.' in shown.app.clipboard
        assert "Copied the picture" in shown.text


@pytest.mark.parametrize(("size", "key"), [(SMALL, "q"), (LARGE, "ctrl+c"), (SMALL, "ctrl+q")])
async def test_it_is_left_by_each_of_the_usual_keys(size, key):
    async with dashboard(one(), size=size) as shown:
        shown.app.post_message(key_event(key))
        await shown.settle()
        assert shown.app._exit


# looks


@SIZES
async def test_hostile_names_and_titles_are_shown_as_what_they_are(size):
    chat = ChatStats(HOSTILE, HOSTILE, HOSTILE, 1, None, 10, 10, 1, 1)
    made = model(HOSTILE, device=HOSTILE, chats=(chat,))
    tree = replace(made.tree, branches=(replace(made.tree.branches[0], chat_id=HOSTILE),))
    block_map = replace(made.block_map, chats=(HOSTILE,), states="!" * 8 + "a" * 8, refs="x")
    told = snapshot(1, replace(made, tree=tree, block_map=block_map))
    program = replace(told.program, command=HOSTILE, version=HOSTILE)
    source = ScriptedSource(a=replace(told, program=program, loading=(HOSTILE,)))
    async with dashboard(source, size=size) as shown:
        for key in VIEWS:
            await shown.press(key)
            assert "␛[31m[b]" in shown.text
            assert not {"\x1b", "\x07", "\u202e", "\u200b", "\udcff"} & set(shown.text)
            assert all(cell_len(line) == size[0] for line in shown.lines)


@pytest.mark.parametrize("size", [(20, 5), (40, 16), (60, 20), (220, 60)])
async def test_no_size_is_garbled(size):
    async with dashboard(one(), size=size) as shown:
        for key in VIEWS:
            await shown.press(key)
            assert len(shown.lines) == size[1]
            assert all(cell_len(line) == size[0] for line in shown.lines)
            assert "local" in shown.lines[0] and "live" in shown.lines[0]
            if size[0] >= 40:
                assert "q quit" in shown.lines[-1]


@SIZES
async def test_where_ascii_is_asked_for_everything_is(size):
    async with dashboard(one(), size=size, glyphs=ASCII) as shown:
        for key in "ocmt":
            await shown.press(key)
            assert shown.text.isascii()
            assert key != "m" or "A A A" in shown.text


@SIZES
async def test_without_colours_classes_have_glyphs_of_their_own(size, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with dashboard(one(), size=size) as shown:
        assert shown.app.theme == PLAIN
        (bar,) = [line for line in shown.lines if line.strip().startswith("KV pool")]
        assert all(glyph in bar.split("active")[0] for glyph in "█▓▒·")
        await shown.press("m")
        assert "A A A" in shown.text


@pytest.mark.parametrize("theme", [LIGHT, ANSI])
async def test_it_has_the_look_of_the_chat(theme):
    async with dashboard(one(), theme=theme) as shown:
        assert shown.app.theme == theme and "live" in shown.text


async def test_what_looks_as_before_is_not_painted_again():
    async with dashboard(one(), size=LARGE) as shown:
        before = shown.screen.charts.num_painted
        await shown.look()
        assert shown.screen.charts.num_painted == before
        busier = model(totals=replace(model().totals, evicted_blocks=9))
        shown.source.running["a"] = snapshot(4_121, busier)
        await shown.look()
        assert shown.screen.charts.num_painted == before + 1


@SIZES
async def test_only_what_is_shown_is_asked_of_the_engine(size):
    async with dashboard(one(), size=size) as shown:
        asked = {}
        for key in VIEWS:
            await shown.press(key)
            asked[key] = shown.source.asked[-1][1]
        assert asked["o"] == asked["c"] == {"chats"}
        both = {"chats", "map", "tree"}
        assert asked["m"] == (both if size == LARGE else {"chats", "map"})
        assert asked["t"] == (both if size == LARGE else {"chats", "tree"})


async def test_it_looks_by_itself():
    async with dashboard(one(), interval_s=0.02) as shown:
        shown.source.running["a"] = snapshot(4_121, model("changed"), taken_at=NOON_S + 1)
        await shown.until_shown("changed")
