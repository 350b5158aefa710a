"""A few tokens behind a known prefix are one graph, whatever their number, and answer the same."""

import os

import pytest

from localpaged.engine.operators import triton_operators
from testkit.decoders import load_decoder, make_decoder_core
from testkit.engine_runs import collect, drain, make_request, run
from testkit.fake_device import FakeDevice
from testkit.gpu_runs import Bench, triton_runner
from testkit.tiny_model import save_tiny_model

PREFIX = [3, 1, 4, 1, 5, 9, 2, 6]
SHORT_CHUNK = 6  # of the bench's runner
SAMPLINGS = {
    "greedy": {},
    "seeded": {"temperature": 1.1, "top_k": 20, "top_p": 0.8, "min_p": 0.05, "seed": 7},
    "penalties": {"repetition_penalty": 1.4, "frequency_penalty": 0.4},
    "logprobs": {"logprobs": 2},
}


def answers(device, asked):
    """Return what each request is told, one after the other on one core, and the bench."""
    bench = Bench(device)
    told = {}
    for request in asked:
        outcome = run(bench.core, [request])[request.id]
        told[request.id] = (outcome.token_ids, [p.token_id for p in outcome.logprobs])
    return told, bench


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_every_length_answers_what_the_processor_answers(sampling):
    asked = [make_request("prefix", PREFIX, max_tokens=2)]
    asked += [
        make_request(str(count), [*PREFIX, *range(20, 20 + count)], max_tokens=3, **sampling)
        for count in range(1, SHORT_CHUNK + 3)
    ]
    expected, _ = answers(None, asked)
    found, bench = answers(FakeDevice(), asked)
    assert found == expected
    assert bench.device.num_captures == bench.runner.num_graphs == 2, "one row, and the chunk"


def test_a_chunk_is_one_copy_each_way_and_one_replay():
    bench = Bench(FakeDevice())
    run(bench.core, [make_request("a", PREFIX, max_tokens=2)])
    run(bench.core, [make_request("b", [*PREFIX, 7, 8], max_tokens=2)])
    device, outcomes = bench.device, {}
    device.hidden.clear()
    before = (device.num_uploads, device.num_downloads, device.num_waits, device.num_replays)
    collect(outcomes, bench.core.submit(make_request("c", [*PREFIX, 9, 9, 9], max_tokens=1)))
    drain(bench.core, outcomes)
    after = (device.num_uploads, device.num_downloads, device.num_waits, device.num_replays)
    assert [b - a for a, b in zip(before, after, strict=True)] == [1, 1, 1, 1]
    assert device.hidden == []
    assert len(outcomes["c"].token_ids) == 1


def test_a_chunk_that_cannot_be_recorded_is_read_all_the_same():
    asked = [make_request("a", [5, 6, 7], max_tokens=4)]
    expected, _ = answers(None, asked)
    found, bench = answers(FakeDevice(refuses=lambda: True), asked)
    assert found == expected
    assert "could not be recorded" in bench.runner.note


def test_a_chunk_is_recorded_anew_when_the_pool_has_moved():
    bench = Bench(FakeDevice(), initial_blocks=4, slab_blocks=4)
    expected = Bench(None, initial_blocks=4, slab_blocks=4)
    for name, prompt in (("a", [1, 2, 3]), ("long", [6] * 40), ("b", [4, 5])):
        request = make_request(name, prompt, max_tokens=3)
        ours, theirs = run(bench.core, [request])[name], run(expected.core, [request])[name]
        assert ours.token_ids == theirs.token_ids
    assert bench.kv.num_blocks > 4


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="tensors are the CPU's")
def test_tritons_kernels_read_nothing_of_the_queries_that_fill_a_chunk_up(tmp_path):
    tiny = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 32, "head_dim": 16}
    folder = save_tiny_model(tmp_path, "qwen3", **tiny)
    request = make_request("a", [5, 6, 7, 8], max_tokens=2)
    expected = run(make_decoder_core(load_decoder(folder)[0]), [request])["a"]
    decoder, _ = load_decoder(folder, operators=triton_operators())
    device = FakeDevice()
    runner = triton_runner(decoder, device, max_rows=1, num_blocks=4)
    core = make_decoder_core(decoder, num_blocks=4, max_running=1, make_runner=runner)
    assert run(core, [request])["a"].token_ids == expected.token_ids
    assert device.num_captures == 2
