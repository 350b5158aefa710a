"""BlockPool: every block is free, held or cached, and the counts add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localpaged.engine.block_pool import NUM_RESERVED_BLOCKS, BlockPool


def test_a_fresh_pool_is_free_and_hands_out_neighbours():
    pool = BlockPool(4)
    assert (pool.num_free, pool.num_held, pool.num_cached) == (4, 0, 0)
    assert [pool.acquire() for _ in range(4)] == [2, 3, 4, 5]


def test_reserved_blocks_are_never_handed_out():
    pool = BlockPool(3)
    taken = [pool.acquire() for _ in range(4)]
    assert taken[-1] is None
    assert min(b for b in taken if b is not None) >= NUM_RESERVED_BLOCKS


def test_a_released_block_is_cached_when_the_tree_knows_it_and_free_otherwise():
    pool = BlockPool(2)
    known, unknown = pool.acquire(), pool.acquire()
    assert known is not None
    assert unknown is not None
    pool.enter_tree(known)
    pool.release(known)
    pool.release(unknown)
    assert (pool.num_free, pool.num_held, pool.num_cached) == (1, 0, 1)
    pool.share(known)
    assert (pool.num_free, pool.num_held, pool.num_cached) == (1, 1, 0)


def test_misuse_is_an_assertion():
    pool = BlockPool(2)
    block = pool.acquire()
    assert block is not None
    pool.release(block)
    with pytest.raises(AssertionError, match="no user"):
        pool.release(block)
    with pytest.raises(AssertionError, match="cannot be shared"):
        pool.share(block)


@given(st.lists(st.tuples(st.sampled_from("asrte"), st.integers(0, 7)), max_size=200))
def test_books_balance_after_any_sequence_of_uses(steps):
    pool = BlockPool(6)
    users: list[int] = []
    tree: set[int] = set()
    for action, pick in steps:
        if action == "a" and (block := pool.acquire()) is not None:
            users.append(block)
        elif action == "s" and (users or tree):
            block = sorted({*users, *tree})[pick % len({*users, *tree})]
            pool.share(block)
            users.append(block)
        elif action == "r" and users:
            pool.release(users.pop(pick % len(users)))
        elif action == "t" and (outside := sorted(set(users) - tree)):
            tree.add(outside[pick % len(outside)])
            pool.enter_tree(outside[pick % len(outside)])
        elif action == "e" and (cached := sorted(tree - set(users))):
            tree.discard(cached[pick % len(cached)])
            pool.leave_tree(cached[pick % len(cached)])
        pool.check(users, tree)
    assert pool.num_free + pool.num_held + pool.num_cached == 6
