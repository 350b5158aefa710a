"""Which engine the dashboard looks at, without a screen; and the real sockets of programs."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from localpaged.errors import EngineGone, StatsError
from localpaged.stats import sockets
from localpaged.stats.schema import BlockMap, Tree, from_json, to_json
from localpaged.tui.glyphs import UNICODE
from localpaged.tui.memory.views import ChatColours, View
from localpaged.tui.paint import cells_of
from localpaged.tui.stats import socket_source
from localpaged.tui.stats.chat_rows import SORTS, Order, chat_line, column_at, columns_in
from localpaged.tui.stats.memory import branch_rows, cell_words, map_picture, seen_of
from localpaged.tui.stats.socket_source import SocketSource
from localpaged.tui.stats.source import look
from localpaged.tui.stats.watch import Watch
from testkit.engine_runs import make_request, run
from testkit.scripted_stats import (
    BRANCHES,
    CHAT_ROWS,
    NOON_S,
    ScriptedSource,
    block_map,
    model,
    snapshot,
)
from testkit.stats_source import CoreSource, telling

NOTHING: frozenset[str] = frozenset()
EVERYTHING = frozenset({"chats", "tree", "map"})


def watching(source: ScriptedSource, *, now_s: float = NOON_S) -> Watch:
    watch = Watch(clock_s=lambda: now_s)
    see(watch, source)
    return watch


def see(watch: Watch, source) -> None:
    watch.take(look(source, watch.wish(NOTHING)))


# which engine


def test_the_newest_engine_is_looked_at_first():
    watch = watching(ScriptedSource(a=snapshot(1), b=snapshot(2)))
    assert watch.engine == "b" and watch.place == (2, 2)


def test_a_look_that_comes_too_late_for_another_engine_is_dropped():
    source = ScriptedSource(a=snapshot(1), b=snapshot(2))
    watch = watching(source)
    late = look(source, watch.wish(NOTHING))
    watch.step(1)
    assert watch.engine == "a"
    watch.take(late)
    assert watch.snapshot.program.pid == 2 and watch.engine == "a"
    see(watch, source)
    assert watch.snapshot.program.pid == 1


def test_an_engine_that_is_silent_has_not_ended():
    source = ScriptedSource(a=snapshot())
    watch = watching(source)
    source.failures["a"] = StatsError("It does not answer.")
    see(watch, source)
    assert watch.ended_at is None and watch.failure is not None and watch.model is not None
    source.failures.clear()
    see(watch, source)
    assert watch.failure is None


def test_the_end_is_told_from_when_it_was_noticed_first():
    source = ScriptedSource(a=snapshot())
    now = [NOON_S]
    watch = Watch(clock_s=lambda: now[0])
    see(watch, source)
    source.running.clear()
    for _ in range(3):
        see(watch, source)
        now[0] += 5.0
    assert watch.ended_at == NOON_S


def test_curves_of_a_process_that_took_the_same_name_begin_anew():
    source = ScriptedSource(a=snapshot())
    watch = watching(source)
    before = watch.tracks
    told = snapshot(4_121, taken_at=NOON_S + 60)
    source.running["a"] = replace(told, program=replace(told.program, started_at=NOON_S))
    see(watch, source)
    assert watch.tracks is not before


def test_curves_of_an_engine_are_there_when_it_is_gone_back_to():
    source = ScriptedSource(a=snapshot(1), b=snapshot(2))
    watch = watching(source)
    before = watch.tracks
    for _ in range(2):
        watch.step(1)
        see(watch, source)
    assert watch.tracks is before


def test_a_model_that_was_unloaded_is_not_pointed_at_any_more():
    source = ScriptedSource(a=snapshot(1, model("first"), model("second")))
    watch = watching(source)
    watch.step(1)
    source.running["a"] = snapshot(1, model("first"))
    see(watch, source)
    assert watch.model.name == "first" and watch.model_place == (1, 1)


# maps, trees and tables


def test_a_map_keeps_states_owners_users_and_ages():
    seen = seen_of(block_map())
    assert (seen.num_blocks, seen.chats) == (256, ("c1", "c2", "c3"))
    assert [seen.count(state) for state in (0, 1, 2, 3)] == [112, 80, 40, 24]
    assert seen.refs[0] == 6 and seen.ages[110] == 3
    words = cell_words(block_map(), seen, 30, lambda chat: {"c1": "Mine"}[chat])
    assert words == ["block 30", "in use", "Mine", "held by 1", "last used now"]


def test_a_large_pool_has_cells_of_several_blocks():
    large = replace(block_map(), num_blocks=1_022, blocks_per_cell=4)
    seen = seen_of(large)
    drawn = map_picture(large, seen, View.STATE, colours=ChatColours(), title_of=lambda chat: chat)
    assert drawn.blocks_per_class == 4 and len(drawn.classes) == 256
    assert cell_words(large, seen, 255, str)[0] == "blocks 1,020 to 1,021"


@pytest.mark.parametrize(
    "odd",
    [
        BlockMap(8, 1, "acpf????", "", "9", "Z", ()),
        BlockMap(2, 1, "", "123", "", "\x1b", ("x",)),
        BlockMap(4, 1, "aaaa", "²³٣x", "7777", "AAAA", ()),
    ],
)
def test_a_map_of_another_program_may_be_anything(odd):
    seen = seen_of(odd)
    for view in View:
        colours = ChatColours()
        colours.follow(seen)
        drawn = map_picture(odd, seen, view, colours=colours, title_of=str)
        assert len(drawn.classes) == len(odd.states)
        assert all(place < len(drawn.swatches) for place in drawn.classes)
    for cell in range(-1, len(odd.states) + 1):
        cell_words(odd, seen, cell, str)


def test_a_tree_has_a_row_for_each_branch_and_those_of_one_chat_after_another_are_one():
    tail = replace(BRANCHES[2], id=9, parent_id=3, start_blocks=201, num_blocks=4)
    rows = branch_rows(Tree(9, 254, 205, 412, (*BRANCHES[:3], tail, *BRANCHES[3:])))
    assert [row.id for row in rows] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert rows[2].num_blocks == 35 and rows[2].has(9)
    assert rows[0].users == 5 and rows[0].saved_blocks == 96 and rows[0].is_pinned


def test_a_tree_that_hangs_from_itself_or_from_nothing_has_an_end():
    twin = replace(BRANCHES[1], id=1)
    orphan = replace(BRANCHES[2], id=77, parent_id=99)
    own = replace(BRANCHES[2], id=88, parent_id=88)
    rows = branch_rows(Tree(5, 0, 0, 0, (BRANCHES[0], twin, orphan, own, BRANCHES[1])))
    assert [row.id for row in rows] == [1, 2]


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e400", "9" * 400])
@pytest.mark.parametrize("name", ["taken_at", "pid"])
def test_a_number_that_nothing_can_be_counted_to_is_no_stats(name, number):
    told = json.dumps(to_json(snapshot()))
    wrong = re.sub(rf'("{name}"): [0-9.]+', rf"\1: {number}", told, count=1)
    assert wrong != told
    with pytest.raises(StatsError):
        from_json(json.loads(wrong))


@pytest.mark.parametrize("cells", [1, 10, 30, 50, 76, 136])
def test_rows_of_chats_fit_and_columns_are_found_where_they_are_drawn(cells):
    for chat in CHAT_ROWS:
        line = chat_line(chat, UNICODE, cells, block_bytes=1_024)
        assert cells_of(line.runs) <= max(3, cells)
    found = {column_at(x, cells).name for x in range(cells) if column_at(x, cells)}
    assert {column.name for column in columns_in(cells)} <= found


def test_a_table_is_sorted_by_every_column_and_turned():
    order = Order()
    for _ in SORTS:
        rows = order.of(CHAT_ROWS)
        assert {chat.chat_id for chat in rows} == {chat.chat_id for chat in CHAT_ROWS}
        keys = [order.column.key(chat) for chat in rows]
        assert keys == sorted(keys, reverse=order.is_falling)
        turned = [order.column.key(chat) for chat in order.turned.of(CHAT_ROWS)]
        assert turned == keys[::-1]
        order = order.next
    assert order.column.name == "state"


# real programs


def test_programs_are_found_by_their_sockets_and_asked_for_what_is_wanted():
    source = CoreSource(titles={"a": "A chat"})
    run(source.core, [make_request("a", range(40))])
    real = SocketSource()
    with telling(source):
        (engine,) = real.engines()
        assert real.read(engine, NOTHING).models[0].block_map is None
        (told,) = real.read(engine, EVERYTHING).models
        assert told.block_map is not None and told.chats[0].title == "A chat"
    assert real.engines() == ()
    with pytest.raises(EngineGone):
        real.read(engine, NOTHING)
    with telling(source):
        (engine,) = real.engines()
        assert real.read(engine, NOTHING).program.command == "chat"
    real.close()


def test_the_watch_follows_a_real_program_that_ends_and_comes_back():
    source = CoreSource(titles={})
    run(source.core, [make_request("a", range(40))])
    real = SocketSource()
    watch = Watch(clock_s=lambda: NOON_S)
    with telling(source):
        see(watch, real)
        assert watch.model is not None and watch.ended_at is None
    see(watch, real)
    assert watch.ended_at == NOON_S and watch.model is not None
    with telling(source):
        see(watch, real)
        assert watch.ended_at is None
    real.close()


def test_a_socket_where_something_else_listens_is_told_of_not_trusted(monkeypatch):
    monkeypatch.setattr(socket_source, "TIMEOUT_S", 0.02)
    listener, path = sockets.listen(12)
    try:
        real = SocketSource()
        (engine,) = real.engines()
        with pytest.raises(StatsError):
            real.read(engine, NOTHING)
    finally:
        listener.close()
        path.unlink()
