"""What lies in which block, told between two steps; and evicting and pinning by hand."""

import time

import pytest

from localpaged.engine.block_pool import NUM_RESERVED_BLOCKS
from localpaged.engine.inspection import (
    AGE_BOUNDS_S,
    FIRST_CHAT,
    MAX_CHATS,
    MAX_REFS,
    OTHER_OWNER,
    SEVERAL_OWNERS,
    BlockState,
)
from localpaged.engine.inspector import age_of, inspect
from localpaged.engine.prefix_tree import MAX_USERS
from localpaged.errors import NoRoom
from testkit.engine_runs import make_core, make_request, run
from testkit.inspections import check_inspection

SYSTEM = tuple(range(48))


def test_a_common_beginning_is_one_branch_that_tells_its_chats_and_what_it_saves():
    core = make_core()
    for name, token in (("a", 100), ("b", 101), ("c", 102)):
        run(core, [make_request(name, [*SYSTEM, *[token] * 20])])
    top, *below = core.inspect().nodes
    assert (len(top.blocks), top.chats, top.saved_blocks) == (3, ("a", "b", "c"), 6)
    assert [(node.chats, node.parent_id) for node in below] == [
        (("a",), top.id), (("b",), top.id), (("c",), top.id)
    ]  # fmt: skip
    assert core.inspect().saved_blocks == 6
    assert top.first_tokens == SYSTEM[:16]


def test_what_one_chat_adds_to_a_shared_branch_is_its_own():
    core = make_core()
    answer = run(core, [make_request("a", SYSTEM, max_tokens=17)])["a"].token_ids
    run(core, [make_request("b", [*SYSTEM, *answer[:16], *[9] * 20])])
    seen = core.inspect()
    owners = {seen.owners[block] for node in seen.nodes for block in node.blocks}
    assert SEVERAL_OWNERS in owners and FIRST_CHAT + seen.chats.index("b") in owners
    check_inspection(core)


def test_running_sequences_tell_their_own_and_shared_blocks():
    core = make_core()
    run(core, [make_request("first", SYSTEM)])
    for name in "ab":
        core.submit(make_request(name, [*SYSTEM, *[ord(name)] * 20], max_tokens=50))
    while len(core.inspect().tables) < 2 or not all(t.own_blocks for t in core.inspect().tables):
        core.step()
    for table in core.inspect().tables:
        assert (table.shared_blocks, table.own_blocks) == (3, 2)
    check_inspection(core)


@pytest.mark.parametrize("count", [0, 1, 3, 7, 20])
def test_what_one_more_context_would_evict_is_told_beforehand(count):
    core = make_core(num_blocks=40, context_length=16 * 30)
    for number in (3, 1, 2, 1):
        run(core, [make_request(str(number), [*SYSTEM, *[number] * 17 * number], max_tokens=17)])
    kv = core.scheduler.kv
    seen = inspect(kv, (), now_s=0.0, context_blocks=kv.num_available - kv.pool.num_cached + count)
    going = {block for block in range(seen.num_blocks) if seen.going[block]}
    evicted = kv.tree.evict(count, lambda block: True)
    assert going == {block - NUM_RESERVED_BLOCKS for block in evicted}


def test_a_branch_that_everybody_uses_knows_so_many_users_and_no_more():
    core = make_core(num_blocks=16, context_length=100)
    for number in range(MAX_USERS + 5):
        core.submit(make_request(f"chat {number}", [*SYSTEM, 1, 2], max_tokens=1))
        while not core.is_idle:
            core.step()
    core.check()
    assert core.inspect().nodes[0].users == MAX_USERS


def test_only_what_nobody_holds_is_evicted_and_from_its_end():
    core = make_core(context_length=200)
    run(core, [make_request("a", [*SYSTEM, *[7] * 20])])
    run(core, [make_request("b", [*SYSTEM, *[8] * 20])])
    core.pin("keep", [*SYSTEM, *[7] * 16])
    top, *_ = core.inspect().nodes
    assert core.evict(top.id) == 1  # b's own block
    assert core.inspect().count(BlockState.PINNED) == 4
    core.unpin("keep")
    assert core.evict(top.id, 2) == 2
    assert core.inspect().count(BlockState.CACHED) == 2
    assert core.evict(12_345) == 0
    core.check()


def test_a_pinned_branch_is_held_with_all_before_it_and_refused_with_numbers():
    core = make_core(num_blocks=12, context_length=100)
    run(core, [make_request("a", [*SYSTEM, *[7] * 20])])
    node = core.inspect().nodes[-1]
    assert core.pin_branch("mine", node.id).num_held == node.start_blocks + len(node.blocks) == 4
    assert core.inspect().node(node.id).pins == ("mine",)
    with pytest.raises(NoRoom, match="one full context needs 7"):
        core.pin("more", [5] * 40)
    assert core.unpin("mine").num_held == 4
    assert core.unpin("nobody").num_held == 0


def test_ages_and_counts_are_told_in_one_byte():
    assert [age_of(s) for s in (0, 0.9, 1, 4.9, 14_399, 99_999)] == [0, 0, 1, 1, 7, 8]
    assert len(AGE_BOUNDS_S) == 8
    now_s = [0.0]
    core = make_core(num_blocks=1_000, clock=lambda: now_s[0], context_length=160)
    for number in range(MAX_CHATS + 3):
        prompt = [*SYSTEM, *[number // 16, number % 16] * 20]
        core.submit(make_request(f"chat {number}", prompt, max_tokens=1))
        while not core.is_idle:
            core.step()
    now_s[0] = 70.0
    for number in range(MAX_REFS + 9):
        core.pin(f"pin {number}", SYSTEM)
    seen = core.inspect()
    assert seen.refs[seen.nodes[0].blocks[0]] == MAX_REFS
    assert {seen.ages[block] for block in seen.nodes[-1].blocks} == {4}
    assert OTHER_OWNER in seen.owners and len(seen.chats) == MAX_CHATS


def test_a_large_pool_is_inspected_in_a_few_milliseconds():
    core = make_core(num_blocks=32_768, context_length=80_000, step_tokens=8_192)
    for number in range(16):
        prompt = [(i * 7 + number) % 251 for i in range(2_000 * 16)]
        core.submit(make_request(str(number), prompt, max_tokens=1))
        while not core.is_idle:
            core.step()
    assert core.inspect().count(BlockState.CACHED) > 30_000
    took_s = []
    for _ in range(9):
        started_s = time.perf_counter()
        core.inspect()
        took_s.append(time.perf_counter() - started_s)
    # 4 ms on a slow core; the best of several does not depend on who else is working.
    assert min(took_s) < 0.03
