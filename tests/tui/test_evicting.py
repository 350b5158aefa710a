"""What evicting on the blocks screen does, what is asked first, and what would go by itself."""

from __future__ import annotations

from textual.widgets import Static

from localpaged.engine.inspection import BlockState
from localpaged.tui.memory.loss import loss_of
from localpaged.tui.memory.tree_rows import tree_rows
from localpaged.tui.screens.confirm import ConfirmScreen
from testkit.memory_screen import SYSTEM, fill, ids, look, open_blocks
from testkit.screens import LARGE, open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES


@SIZES
async def test_a_branch_is_pinned_and_unpinned_and_evicted_from_the_tree(size):
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine, size=size) as shown:
            await open_blocks(shown)
            await shown.press("tab")
            assert "held by nobody" in shown.text and "used by" in shown.text
            await shown.press("p")
            await shown.until_shown("Pinned 6 blocks")
            await look(shown)
            assert engine.inspect().result().count(BlockState.PINNED) == 6
            assert "pinned with a branch" in shown.text
            await shown.press("x", "y")
            await shown.until_shown("Evicted 8 blocks")
            await look(shown)
            await shown.press("x")
            await shown.until_shown("Nothing to evict")
            await shown.press("p")
            await shown.until_shown("Unpinned: 6 blocks")
            await look(shown)
            await shown.press("x")
            await shown.until_shown("Evicted 6 blocks (2.1 MiB)")
            await look(shown)
            assert engine.inspect().result().count(BlockState.FREE) == 64


@SIZES
async def test_evicting_others_below_is_asked_first_with_what_is_lost(size):
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine, size=size) as shown:
            screen = await open_blocks(shown)
            await shown.press("tab", "x")
            assert isinstance(shown.dialog, ConfirmScreen)
            assert "Evict this branch and all below it?" in shown.text
            asked = str(shown.dialog.query_one(".dialog-detail", Static).content)
            assert asked == (
                "14 blocks (4.9 MiB), 8 of them in branches below. 2 chats lose their cache. "
                "To have it back, up to 224 tokens are computed again."
            )
            assert "computed again." in shown.text
            # the answer of habit does no harm
            await shown.press("enter")
            assert shown.app.screen is screen
            assert engine.inspect().result().count(BlockState.CACHED) == 14
            await shown.press("x", "y")
            await shown.until_shown("Evicted 14 blocks")
            assert engine.inspect().result().count(BlockState.FREE) == 64


async def test_a_leaf_is_evicted_without_a_question():
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine, size=LARGE) as shown:
            screen = await open_blocks(shown)
            await shown.press("tab", "down", "x")
            await shown.until_shown("Evicted 4 blocks")
            assert shown.app.screen is screen


async def test_a_block_of_a_shared_beginning_is_asked_for_from_the_map_too():
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine, size=LARGE) as shown:
            screen = await open_blocks(shown)
            screen.block_map.go_to(engine.inspect().result().nodes[0].blocks[4])
            await shown.press("x")
            assert "10 blocks" in shown.text and "8 of them" in shown.text
            await shown.press("escape")
            assert shown.app.screen is screen


def test_what_is_told_to_be_lost_is_what_is_evicted():
    def fresh():
        engine = ScriptedEngine(total_blocks=64)
        first, second, third = "Venice", "Mainz", "Paris"
        engine.remember(first, (*SYSTEM, *ids("books of Venice "), *ids("and more", 32)))
        engine.remember(third, (*SYSTEM, *ids("books of Venice "), *ids("or less", 48)))
        engine.hold(second, (*SYSTEM, *ids("Gutenberg lived ", 32)))
        engine.pin("a", (*SYSTEM, *ids("books of Venice "), *ids("and more", 16))).result()
        return engine

    seen = fresh().inspect().result()
    rows = tree_rows(seen)
    places = [
        (row, node, offset)
        for row in rows
        for node in row.nodes
        for offset in range(len(node.blocks))
    ]
    for row, node, offset in places:
        engine = fresh()
        twin = engine.inspect().result().nodes[seen.nodes.index(node)]
        loss = loss_of(seen, row, node=node, offset=offset)
        assert loss.blocks == engine.evict(twin.id, offset).result(), (row, offset)
        is_last = not any(other.parent_id == row.bottom.id for other in seen.nodes)
        assert loss.below_blocks <= (0 if is_last else loss.blocks)
    losses = [loss_of(seen, row, node=row.top, offset=0) for row in rows]
    assert any(loss.below_blocks == loss.blocks > 0 for loss in losses)
    assert {len(loss.chats) for loss in losses if loss.blocks} >= {1, 2}


async def test_evicting_a_block_of_the_map_takes_it_and_what_follows():
    engine = ScriptedEngine(total_blocks=64)
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine) as shown:
            screen = await open_blocks(shown)
            last = engine.inspect().result().nodes[-1].blocks[1]
            screen.block_map.go_to(last)
            await shown.press("x")
            await shown.until_shown("Evicted 3 blocks")
            screen.block_map.go_to(63)
            await shown.press("x")
            await shown.until_shown("not in the prefix tree")


async def test_what_would_be_evicted_next_is_told_beforehand():
    engine = ScriptedEngine(total_blocks=16)
    engine.reserved_blocks = 4
    with open_service(engine) as service:
        fill(service, engine)
        async with stage(service, engine) as shown:
            screen = await open_blocks(shown)
            await shown.press("m", "m", "m")
            assert "█ would go first" in shown.text
            going = engine.inspect().result().going
            assert sum(going) == 2
            screen.block_map.go_to(going.index(1))
            await shown.until_shown("cached, would go first")
