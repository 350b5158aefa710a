"""The pool begins small and grows in slabs before anything is evicted, up to its limit."""

import pytest
import torch

from localpaged.config import Settings
from localpaged.engine.block_pool import BlockPool
from localpaged.engine.kv_storage import KVStorage
from localpaged.engine.runner import ModelRunner
from localpaged.errors import NoRoom
from localpaged.fitting.pool import FULL_CHATS, size_pool
from testkit.decoders import load_decoder, make_decoder_core
from testkit.engine_runs import make_core, make_request, run
from testkit.fake_runner import expected_answer
from testkit.tiny_model import save_tiny_model


def test_new_blocks_come_after_the_free_ones():
    pool = BlockPool(2)
    pool.grow(2)
    assert [pool.acquire() for _ in range(5)] == [2, 3, 4, 5, None]
    pool.check([2, 3, 4, 5], [])


def test_the_pool_grows_before_it_evicts_and_no_further_than_its_limit():
    core = make_core(num_blocks=20, initial_blocks=4, slab_blocks=3, context_length=100)
    assert (core.snapshot().total_blocks, core.snapshot().max_blocks) == (4, 20)
    run(core, [make_request("a", range(40))])
    assert core.snapshot().total_blocks == 4
    run(core, [make_request("b", range(100, 140))])
    assert (core.snapshot().total_blocks, core.snapshot().evicted_blocks) == (7, 0)
    prompts = {f"p{i}": [i] * 60 for i in range(10)}
    outcomes = run(core, [make_request(n, p, max_tokens=20) for n, p in prompts.items()])
    assert core.snapshot().total_blocks == 20
    assert core.snapshot().evicted_blocks > 0
    for name, prompt in prompts.items():
        assert outcomes[name].token_ids == expected_answer(prompt, 20)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8], ids=str)
def test_storage_that_grows_keeps_what_is_written(tmp_path, dtype):
    decoder, _ = load_decoder(save_tiny_model(tmp_path / "llama", "llama"))
    kv = KVStorage(decoder.config, num_blocks=2, block_size=16, dtype=dtype)
    for layer in kv.layers:
        layer.numbers.random_(0, 100)
    before = [layer.numbers.clone() for layer in kv.layers]
    kv.grow(5)
    kv.grow(3)
    assert kv.num_blocks == 5
    for layer, old in zip(kv.layers, before, strict=True):
        assert layer.numbers.shape[0] == 7
        assert torch.equal(layer.numbers[:4], old)
        assert not layer.numbers[4:].any()


def test_answers_do_not_change_while_the_pool_grows(tmp_path):
    decoder, _ = load_decoder(save_tiny_model(tmp_path / "qwen3", "qwen3"))
    generator = torch.Generator().manual_seed(3)
    requests = [
        make_request(str(n), torch.randint(3, 300, (n,), generator=generator).tolist())
        for n in (5, 16, 33, 70)
    ]
    expected = run(make_decoder_core(decoder), requests)
    small = KVStorage(decoder.config, num_blocks=1, block_size=16, dtype=torch.float32)
    core = make_decoder_core(
        decoder,
        num_blocks=40,
        initial_blocks=1,
        slab_blocks=1,
        make_runner=lambda kv: ModelRunner(decoder, small),
    )
    outcomes = run(core, requests)
    assert small.num_blocks == core.snapshot().total_blocks < 40
    for name, outcome in expected.items():
        assert outcomes[name].token_ids == outcome.token_ids


def size(config, *, block_bytes=2**20, **settings):
    return size_pool(config, Settings(model="m", **settings), block_bytes=block_bytes)


def test_the_pool_is_sized_by_need_and_limited_by_what_was_given(tmp_path):
    decoder, _ = load_decoder(save_tiny_model(tmp_path / "llama", "llama"))
    by_need = size(decoder.config)
    assert (by_need.num_blocks, by_need.context_length) == (FULL_CHATS * 32, 512)
    assert (by_need.initial_blocks, by_need.slab_blocks) == (32, 8)
    given = size(decoder.config, kv_memory_bytes=1_000 * 2**20)
    assert (given.num_blocks, given.initial_blocks) == (1_000, 32)
    tight = size(decoder.config, kv_memory_bytes=10 * 2**20)
    assert (tight.num_blocks, tight.initial_blocks, tight.context_length) == (10, 10, 160)
    with pytest.raises(NoRoom, match="512 tokens needs"):
        size(decoder.config, kv_memory_bytes=10 * 2**20, context_tokens=512)
