"""KV memory in other numbers than the computation: copies, sizes, and what it costs in quality."""

import importlib.util
from pathlib import Path

import pytest
import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.kv_storage import KVStorage, block_bytes
from localpaged.engine.step_plan import BlockCopy
from testkit.decoders import load_decoder, make_decoder_core
from testkit.engine_runs import make_request, run
from testkit.tiny_model import save_tiny_model

ROOT = Path(__file__).parent.parent.parent
CONFIG = DecoderConfig(
    architecture="llama",
    vocab_size=8,
    hidden_size=64,
    intermediate_size=64,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=64,
    context_length=64,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
)


def load_benchmark(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
def test_copies_move_everything_that_belongs_to_a_block(dtype):
    kv = KVStorage(CONFIG, num_blocks=4, block_size=16, dtype=dtype)
    for layer in kv.layers:
        layer.numbers[3].random_(0, 100)
        if layer.scales is not None:
            layer.scales[3].uniform_(1, 2)
    kv.apply((BlockCopy(3, 5),))
    for layer in kv.layers:
        assert torch.equal(layer.numbers[5], layer.numbers[3])
        assert (layer.scales is None) == dtype.is_floating_point
        if layer.scales is not None:
            assert torch.equal(layer.scales[5], layer.scales[3])


def test_a_block_of_int8_takes_little_more_than_half():
    wide, narrow = (block_bytes(CONFIG, d, block_size=16) for d in (torch.bfloat16, torch.int8))
    assert wide == 3 * 16 * 2 * 2 * 64 * 2
    assert narrow == 3 * 16 * 2 * 2 * (64 + 4)
    assert narrow / wide < 0.55
    kv = KVStorage(CONFIG, num_blocks=4, block_size=16, dtype=torch.int8)
    taken = sum(layer.numbers.nbytes + layer.scales.nbytes for layer in kv.layers)
    assert taken == narrow * 6


@pytest.mark.parametrize("kv_dtype", [torch.int8, torch.bfloat16], ids=str)
def test_answers_do_not_depend_on_what_else_is_in_the_pool(tmp_path, kv_dtype):
    decoder, _ = load_decoder(save_tiny_model(tmp_path / "llama", "llama"))
    generator = torch.Generator().manual_seed(3)
    requests = [
        make_request(
            str(n), torch.randint(3, 300, (n,), generator=generator).tolist(), max_tokens=24
        )
        for n in (5, 16, 33, 70, 90)
    ]
    alone = {}
    for request in requests:
        alone |= run(make_decoder_core(decoder, kv_dtype=kv_dtype), [request])
    core = make_decoder_core(
        decoder,
        kv_dtype=kv_dtype,
        num_blocks=10,
        step_tokens=24,
        host_blocks=20,
        host_use="always",
    )
    together = run(core, requests)
    again = run(core, requests)
    assert core.snapshot().swapped_in_blocks > 0
    for request in requests:
        assert together[request.id].token_ids == alone[request.id].token_ids
        assert again[request.id].token_ids == alone[request.id].token_ids


@pytest.mark.model
def test_int8_costs_less_than_a_hundredth_of_perplexity(default_model):
    benchmark = load_benchmark("perplexity")
    decoder, opened = load_decoder(default_model)
    token_ids = opened.chat.encode(benchmark.TEXT.read_text(encoding="utf-8"))
    assert len(token_ids) >= 1_500
    wide, narrow = (
        benchmark.perplexity(decoder, token_ids, kv_dtype=dtype)
        for dtype in (torch.bfloat16, torch.int8)
    )
    assert 5 < wide < 50, "not the text of a language model that works"
    assert narrow == pytest.approx(wide, rel=0.01)
    assert narrow != wide, "the cache was not used"
