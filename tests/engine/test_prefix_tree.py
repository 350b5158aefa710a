"""PrefixTree against a dict of prefixes."""

from hypothesis import given, settings
from hypothesis import strategies as st

from localpaged.engine.prefix_tree import PartialMatch, PrefixTree

SIZE = 4


def keys_of(text: str) -> list[tuple[int, ...]]:
    tokens = [ord(c) for c in text]
    return [tuple(tokens[i : i + SIZE]) for i in range(0, len(tokens) - SIZE + 1, SIZE)]


def tail_of(text: str) -> list[int]:
    return [ord(c) for c in text[len(text) // SIZE * SIZE :]]


def match(tree: PrefixTree, text: str):
    return tree.match(keys_of(text), tail_of(text))


def test_matches_whole_blocks_only_up_to_the_first_difference():
    tree = PrefixTree()
    tree.insert(keys_of("aaaabbbbcccc"), [2, 3, 4])
    assert match(tree, "aaaabbbbdddd").blocks == (2, 3)
    assert match(tree, "aaaabbbbcccceeee").blocks == (2, 3, 4)
    assert match(tree, "baaabbbb").blocks == ()


def test_finds_the_longest_start_of_a_following_block():
    tree = PrefixTree()
    tree.insert(keys_of("aaaabbbb"), [2, 3])
    tree.insert(keys_of("aaaabbcc"), [2, 4])
    tree.insert(keys_of("aaaacccc"), [2, 5])
    assert match(tree, "aaaabbcd").partial == PartialMatch(4, 3)
    assert match(tree, "aaaabbb").partial == PartialMatch(3, 3)
    assert match(tree, "aaaaxyz").partial is None
    assert match(tree, "aa").partial == PartialMatch(2, 2)


def test_a_known_prefix_keeps_its_block_and_the_other_is_reported():
    tree = PrefixTree()
    tree.insert(keys_of("aaaabbbb"), [2, 3])
    assert tree.insert(keys_of("aaaabbbbcccc"), [7, 8, 9]) == [2, 3, 9]
    tree.check()


def test_eviction_takes_leaves_first_and_the_least_recent_first():
    tree = PrefixTree()
    tree.insert(keys_of("aaaabbbbcccc"), [2, 3, 4])
    tree.insert(keys_of("aaaadddd"), [2, 5])
    match(tree, "aaaabbbbcccc")
    assert tree.evict(2, lambda block: True) == [5, 4]
    assert tree.evict(9, lambda block: True) == [3, 2]
    assert list(tree.blocks()) == []


def test_a_held_block_and_everything_above_it_stay():
    tree = PrefixTree()
    tree.insert(keys_of("aaaabbbbcccc"), [2, 3, 4])
    held = {2, 3}
    assert tree.evict(9, lambda block: block not in held) == [4]
    held.clear()
    assert tree.evict(9, lambda block: block not in held) == [3, 2]


def test_a_match_that_ends_inside_an_edge_keeps_what_matched_recent_and_no_more():
    tree = PrefixTree()
    tree.insert(keys_of("aaaabbbb"), [2, 3])
    tree.insert(keys_of("ccccdddd"), [4, 5])
    match(tree, "aaaaxxxx")
    assert tree.evict(4, lambda block: True) == [3, 5, 4, 2]


def test_a_few_common_tokens_do_not_keep_an_old_prefix_recent():
    tree = PrefixTree()
    tree.insert(keys_of("aaaabbbbcccc"), [2, 3, 4])
    tree.insert(keys_of("xxxx"), [5])
    assert match(tree, "ayyy").partial == PartialMatch(2, 1)
    assert tree.evict(4, lambda block: True) == [4, 3, 2, 5]


def test_a_partly_matched_block_becomes_recent():
    tree = PrefixTree()
    tree.insert(keys_of("aaaa"), [2])
    tree.insert(keys_of("bbbb"), [3])
    match(tree, "aaax")
    assert tree.evict(1, lambda block: True) == [3]


texts = st.lists(st.sampled_from(["aaaa", "bbbb", "aabb", "abab"]), min_size=1, max_size=5).map(
    "".join
)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from("ime"), texts, st.integers(1, 4)), max_size=40))
def test_agrees_with_a_dict_of_prefixes(steps):
    tree, known, next_block = PrefixTree(), {}, 2
    for action, text, count in steps:
        keys = keys_of(text)
        prefixes = [tuple(keys[: i + 1]) for i in range(len(keys))]
        if action == "i":
            fresh = list(range(next_block, next_block + len(keys)))
            next_block += len(keys)
            canonical = tree.insert(keys, fresh)
            for prefix, block in zip(prefixes, fresh, strict=True):
                known.setdefault(prefix, block)
            assert canonical == [known[prefix] for prefix in prefixes]
        elif action == "m":
            expected = []
            for prefix in prefixes:
                if prefix not in known:
                    break
                expected.append(known[prefix])
            assert match(tree, text).blocks == tuple(expected)
        else:
            evicted = set(tree.evict(count, lambda block: True))
            assert len(evicted) == min(count, len(known))
            known = {p: b for p, b in known.items() if b not in evicted}
            assert all(p[:-1] in known or len(p) == 1 for p in known), "a prefix lost its start"
        assert dict(tree.paths()) == known
        tree.check()


def test_the_eviction_heap_does_not_grow_with_matches():
    tree = PrefixTree()
    tree.insert(keys_of("aaaabbbb"), [2, 3])
    for _ in range(10_000):
        match(tree, "aaaabbbb")
    assert len(tree._heap) < 200
    assert tree.evict(2, lambda block: True) == [3, 2]


def test_a_discarded_prefix_is_gone_as_far_as_it_ends_there():
    tree = PrefixTree()
    tree.insert(keys_of("aaaabbbbcccc"), [2, 3, 4])
    tree.insert(keys_of("aaaabbbbdddd"), [2, 3, 5])
    assert tree.discard(keys_of("aaaabbbb"), lambda block: True) == []
    assert tree.discard(keys_of("aaaabbbbcccc"), lambda block: True) == [4]
    assert match(tree, "aaaabbbbcccc").blocks == (2, 3)
    assert tree.discard(keys_of("aaaabbbbdddd"), lambda block: block != 2) == [5, 3]
    tree.check()
    assert list(tree.blocks()) == [2]
    assert tree.evict(5, lambda block: True) == [2]
