"""Map, tree and chats of a snapshot agree with the engine's books and stay small."""

from dataclasses import replace
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from localpaged.engine.inspection import FIRST_CHAT, BlockState, Inspection, TreeNode
from localpaged.stats.block_cells import block_map
from localpaged.stats.prefixes import chats_of, tree_of
from localpaged.stats.schema import (
    MAX_CHATS,
    MAX_MAP_CELLS,
    MAX_TREE_NODES,
    OWNER_LETTERS,
    OWNER_OTHER,
)
from testkit.engine_runs import collect, make_core, make_request, run

STATES = st.lists(st.sampled_from(BlockState), min_size=1, max_size=80)


def inspection_of(states, *, owners=None, chats=()):
    size = len(states)
    return Inspection(
        states=bytes(states),
        refs=bytes(size),
        ages=bytes(size),
        owners=owners or bytes(size),
        going=bytes(size),
        chats=chats,
    )


@given(STATES)
def test_a_small_pool_has_a_cell_for_every_block(states):
    drawn = block_map(inspection_of(states))
    assert drawn.blocks_per_cell == 1 and len(drawn.states) == len(states)
    counts = {BlockState.FREE: ".", BlockState.HELD: "a", BlockState.CACHED: "c"}
    for state, letter in (counts | {BlockState.PINNED: "p"}).items():
        assert drawn.states.count(letter) == states.count(state)


def test_the_map_of_a_huge_pool_stays_small():
    states = [BlockState.HELD] * 40_000 + [BlockState.FREE] * 60_001
    drawn = block_map(inspection_of(states))
    assert drawn.num_blocks == 100_001
    assert len(drawn.states) == len(drawn.refs) == len(drawn.ages) == len(drawn.owners)
    assert len(drawn.states) <= MAX_MAP_CELLS
    assert drawn.blocks_per_cell * len(drawn.states) >= drawn.num_blocks
    assert abs(drawn.states.count("a") / len(drawn.states) - 0.4) < 0.01


def test_of_equally_many_blocks_those_in_use_are_shown():
    size = 2 * MAX_MAP_CELLS
    states = [BlockState.FREE, BlockState.CACHED] * (size // 2)
    assert set(block_map(inspection_of(states)).states) == {"c"}


@given(st.lists(st.integers(0, 255), min_size=1, max_size=40), st.integers(1, 5))
def test_a_cell_of_several_blocks_tells_the_most_users_and_the_youngest(values, each):
    size = len(values)
    most_cells = -(-size // each)
    inspection = replace(
        inspection_of([BlockState.FREE] * size), refs=bytes(values), ages=bytes(values)
    )
    with patch("localpaged.stats.block_cells.MAX_MAP_CELLS", most_cells):
        drawn = block_map(inspection)
    cells = [values[i : i + drawn.blocks_per_cell] for i in range(0, size, drawn.blocks_per_cell)]
    assert drawn.refs == "".join(str(min(9, max(cell))) for cell in cells)
    assert drawn.ages == "".join(str(min(9, min(cell))) for cell in cells)


def test_more_chats_than_letters_are_others():
    num_chats = len(OWNER_LETTERS) + 5
    owners = bytes(FIRST_CHAT + i for i in range(num_chats))
    states = [BlockState.CACHED] * num_chats
    chats = tuple(f"c{i}" for i in range(num_chats))
    drawn = block_map(inspection_of(states, owners=owners, chats=chats))
    assert drawn.owners == OWNER_LETTERS + 5 * OWNER_OTHER
    assert len(drawn.chats) == len(OWNER_LETTERS)


def test_running_and_cached_chats_tell_what_is_theirs_alone():
    core = make_core()
    run(core, [make_request("done", range(40), max_tokens=9)])
    core.submit(make_request("runs", [*range(32), 9, 9], max_tokens=9))
    core.submit(make_request("alone", range(100, 120), max_tokens=9))
    collect({}, core.step())
    chats, count = chats_of(core.snapshot(), core.inspect(), lambda ids: {"runs": "Title"})
    told = {chat.chat_id: chat for chat in chats}
    assert count == 3 and [chat.chat_id for chat in chats][-1] == "done"
    assert (told["runs"].shared_blocks, told["runs"].own_blocks) == (2, 1)
    assert (told["runs"].title, told["runs"].state) == ("Title", "decode")
    assert (told["alone"].shared_blocks, told["alone"].own_blocks) == (0, 2)
    assert (told["done"].shared_blocks, told["done"].own_blocks) == (2, 1)
    assert told["done"].state == "cached"


def test_samples_of_one_chat_are_one_row():
    core = make_core()
    core.submit(make_request("a", range(40), num_samples=3, max_tokens=9))
    collect({}, core.step())
    ((chat,), _) = chats_of(core.snapshot(), core.inspect(), lambda ids: {})
    assert chat.sequences == 3
    assert chat.own_blocks == core.snapshot().held_blocks and chat.shared_blocks == 0


def test_many_chats_are_counted_and_the_busiest_told():
    core = make_core(num_blocks=2_000, context_length=64)
    run(core, [make_request(f"c{i}", [i % 256, i // 256] * 10) for i in range(MAX_CHATS + 9)])
    chats, count = chats_of(core.snapshot(), core.inspect(), lambda ids: {})
    assert len(chats) == MAX_CHATS and count == MAX_CHATS + 9


def node(number, parent, size):
    return TreeNode(number, parent, 0, tuple(range(size)), 0, (), (1,), (), num_cached=size, age=0)


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 5)), min_size=1, max_size=600))
def test_a_large_tree_is_cut_to_its_largest_branches_with_all_above(parts):
    nodes = [
        node(i, None if i == 0 or seed % 7 == 0 else seed % i, size)
        for i, (seed, size) in enumerate(parts)
    ]
    tree = tree_of(Inspection(nodes=tuple(nodes)))
    told = {branch.id for branch in tree.branches}
    assert len(told) == len(tree.branches) <= MAX_TREE_NODES
    assert all(branch.parent_id is None or branch.parent_id in told for branch in tree.branches)
    assert tree.num_branches == len(nodes)
    assert tree.num_blocks == sum(len(each.blocks) for each in nodes)
    if len(nodes) <= MAX_TREE_NODES:
        assert len(told) == len(nodes)


def test_the_tree_of_a_core_has_every_cached_block():
    core = make_core()
    run(core, [make_request("a", range(64)), make_request("b", [*range(32), *range(90, 130)])])
    tree = tree_of(core.inspect())
    assert tree.num_blocks == core.snapshot().cached_blocks
    assert tree.depth_blocks == 4
    assert tree.saved_blocks == core.inspect().saved_blocks > 0
