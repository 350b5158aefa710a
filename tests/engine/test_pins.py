"""A pinned prefix stays: it is never evicted, counted, bounded, and gone when it is unpinned."""

import pytest

from localpaged.engine.params import BeamParams
from localpaged.errors import NoRoom
from testkit.engine_runs import make_core, make_request, run

PROMPT = tuple(range(100, 137))


def others(count):
    return [make_request(f"o{i}", [i] * 60, max_tokens=30) for i in range(count)]


def cached_tokens(core, prompt):
    return run(core, [make_request("again", prompt, max_tokens=1)])["again"].finish.usage


@pytest.mark.parametrize("is_pinned", [True, False])
def test_a_pinned_prompt_survives_what_evicts_others(is_pinned):
    core = make_core(num_blocks=12, context_length=100)
    run(core, [make_request("a", PROMPT)])
    if is_pinned:
        core.pin("system", PROMPT)
    run(core, others(12))
    assert core.snapshot().evicted_blocks > 0
    assert core.snapshot().pinned_blocks == (2 if is_pinned else 0)
    assert cached_tokens(core, PROMPT).cached_tokens == (32 if is_pinned else 0)


def test_a_pin_waits_for_blocks_that_do_not_exist_yet():
    core = make_core(num_blocks=12, context_length=100)
    core.pin("system", PROMPT)
    assert core.snapshot().pinned_blocks == 0
    run(core, [make_request("a", PROMPT[:20])])
    assert core.snapshot().pinned_blocks == 1
    run(core, [make_request("b", (*PROMPT, 7, 8), beam=BeamParams(width=2))])
    assert core.snapshot().pinned_blocks == 2
    run(core, others(12))
    assert cached_tokens(core, PROMPT).cached_tokens >= 32


def test_unpinned_blocks_can_be_evicted_again():
    core = make_core(num_blocks=12, context_length=100)
    run(core, [make_request("a", PROMPT)])
    core.pin("one", PROMPT)
    core.pin("two", PROMPT[:16])
    core.unpin("one")
    core.unpin("nobody")
    assert core.snapshot().pinned_blocks == core.snapshot().held_blocks == 1
    core.unpin("two")
    core.check()
    assert core.snapshot().held_blocks == 0
    run(core, others(12))
    assert cached_tokens(core, PROMPT).cached_tokens == 0


def test_a_second_pin_of_a_key_replaces_the_first():
    core = make_core(num_blocks=12, context_length=64)
    run(core, [make_request("a", PROMPT)])
    core.pin("chat", PROMPT[:16])
    core.pin("chat", PROMPT)
    assert core.snapshot().pinned_blocks == 2
    core.pin("chat", (1, 2, 3))
    core.check()
    assert core.snapshot().pinned_blocks == 0


def test_pins_must_leave_a_full_context():
    core = make_core(num_blocks=12, context_length=64)
    core.pin("a", [1] * 64)
    core.pin("b", [*[1] * 48, *[2] * 64])
    message = r"12 of 12 KV blocks would be pinned and 0 left; one full context needs 4"
    with pytest.raises(NoRoom, match=message):
        core.pin("c", [3] * 64)
    core.pin("b", [3] * 64)
    run(core, [*others(0), make_request("x", [9] * 50, max_tokens=14)])
    core.check()
    with pytest.raises(NoRoom):
        core.pin("d", [4] * 16)
    assert set(core.scheduler.kv.pins.keys) == {"a", "b"}
