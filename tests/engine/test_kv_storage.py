"""KV of every format is moved whole, by torch and by Triton, through slabs of any size."""

import os

import pytest
import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.kv_storage import KVStorage, block_bytes
from localpaged.engine.operators import torch_operators, triton_operators
from localpaged.engine.step_plan import BlockCopy, BlockMove
from localpaged.engine.swap_space import SwapSpace

CONFIG = DecoderConfig(
    architecture="llama",
    vocab_size=8,
    hidden_size=64,
    intermediate_size=64,
    num_layers=2,
    num_heads=4,
    num_kv_heads=3,
    head_dim=20,
    context_length=64,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
)
DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int8, torch.float8_e4m3fn]
OPERATORS = {"torch": torch_operators, "triton": triton_operators}

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="tensors are the CPU's"
)


def bits(tensor):
    return tensor.contiguous().view(torch.uint8)


def contents(kv, block):
    """Return all bits that belong to a block."""
    tensors = [t for layer in kv.layers for t in (layer.numbers, layer.scales) if t is not None]
    return torch.cat([bits(tensor[block]).flatten() for tensor in tensors])


@pytest.fixture(params=DTYPES, ids=str)
def make(request):
    """Return storages whose blocks differ from each other in every byte or nearly so."""

    def make(operators="torch", **options):
        kv = KVStorage(
            CONFIG,
            num_blocks=6,
            block_size=16,
            dtype=request.param,
            operators=OPERATORS[operators](),
            **options,
        )
        generator = torch.Generator().manual_seed(1)
        for layer in kv.layers:
            for tensor in (layer.numbers, layer.scales):
                if tensor is not None:
                    random = torch.randint(
                        0, 200, tensor.view(torch.uint8).shape, generator=generator
                    )
                    tensor.view(torch.uint8).copy_(random)
        return kv

    return make


@pytest.mark.parametrize("operators", OPERATORS)
def test_copies_read_every_source_before_a_target_is_written(make, operators):
    kv = make(operators)
    before = [contents(kv, block) for block in range(8)]
    kv.apply((BlockCopy(3, 5),))
    kv.apply((BlockCopy(5, 6), BlockCopy(6, 4), BlockCopy(2, 5)))
    after = [contents(kv, block) for block in range(8)]
    for block, source in enumerate((0, 1, 2, 3, 6, 2, 3, 7)):
        assert torch.equal(after[block], before[source]), block


@pytest.mark.parametrize("operators", OPERATORS)
def test_what_is_swapped_out_comes_back_into_other_blocks(make, operators):
    kv = make(operators, host_blocks=5)
    before = [contents(kv, block) for block in range(8)]
    kv.swap_out([BlockMove(2, 4), BlockMove(7, 0), BlockMove(3, 1)])
    kv.swap_out([])
    kv.poison()
    kv.swap_in([BlockMove(5, 1), BlockMove(4, 4)])
    kv.swap_in([BlockMove(6, 0)])
    for block, source in ((5, 3), (4, 2), (6, 7)):
        assert torch.equal(contents(kv, block), before[source])


def test_slots_lie_in_slabs_that_are_made_when_they_are_used(make, monkeypatch):
    kv = make()
    before = [contents(kv, block) for block in range(8)]
    parts = kv._parts
    slot_bytes = parts[0][:, 0].nbytes
    monkeypatch.setattr("localpaged.engine.swap_space.PIECE_BYTES", 2 * slot_bytes)
    space = SwapSpace(parts, count=5, operators=torch_operators(), slab_bytes=2 * slot_bytes + 1)
    space.swap_out(parts, [BlockMove(2, 1)])
    assert sorted(space._slabs) == [0]
    space.swap_out(parts, [BlockMove(3, 4), BlockMove(4, 3), BlockMove(5, 2)])
    assert [len(slab[0]) for _, slab in sorted(space._slabs.items())] == [2, 2, 1]
    kv.poison()
    moves = [BlockMove(7, 1), BlockMove(2, 2), BlockMove(3, 3), BlockMove(6, 4)]
    space.swap_in(parts, moves)
    for block, source in ((7, 2), (2, 5), (3, 4), (6, 3)):
        assert torch.equal(contents(kv, block), before[source])


@pytest.mark.parametrize("operators", OPERATORS)
def test_bytes_for_files_are_read_and_written_and_slots_are_cleared(make, operators):
    kv = make(operators)
    before = [contents(kv, block) for block in range(8)]
    read = kv.read_blocks([3, 6])
    assert sum(len(part) for part in read) == 2 * len(before[3])
    kv.poison()
    kv.write_blocks([7, 4], read, first=0, pool_blocks=6)
    kv.write_blocks([5], read, first=1, pool_blocks=9)
    for block, source in ((7, 3), (4, 6), (5, 6)):
        assert torch.equal(contents(kv, block), before[source])
    kv.clear([5 * 16 + 1, 5 * 16 + 2])
    for layer in kv.layers:
        assert not bits(layer.numbers[5, 1:3]).any()
        assert bits(layer.numbers[5, 3]).any()


def test_a_block_takes_what_is_told(make):
    kv = make()
    dtype = kv.layers[0].numbers.dtype
    assert len(contents(kv, 0)) == block_bytes(CONFIG, dtype, block_size=16)
    assert sum(part.block_bytes for part in kv.forms) == len(contents(kv, 0))


def test_growing_moves_everything_and_changes_the_addresses(make):
    kv = make()
    before = [contents(kv, block) for block in range(8)]
    address = kv.layers[0].numbers.data_ptr()
    kv.grow(9)
    assert kv.layers[0].numbers.data_ptr() != address
    for block in range(8):
        assert torch.equal(contents(kv, block), before[block])
    assert not contents(kv, 10).any()


def test_files_fill_memory_that_was_made_by_a_step(make):
    kv = make()
    before = contents(kv, 3)
    with torch.inference_mode():
        kv.grow(9)
    kv.write_blocks([10], kv.read_blocks([3]), first=0, pool_blocks=9)
    assert torch.equal(contents(kv, 10), before)
