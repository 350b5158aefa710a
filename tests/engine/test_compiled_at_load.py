"""Nothing is compiled for who asks first, nor ever while a step is recorded."""

import os

import pytest
import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.gpu_runner import GpuRunner
from localpaged.engine.native import NativeDecoder
from localpaged.engine.operators import triton_operators
from localpaged.engine.params import BeamParams, DryParams
from localpaged.models.quantise import empty_quantised
from localpaged.models.tensor_layout import tensor_layout
from localpaged.models.weight_forms import form_of
from testkit.decoders import make_decoder_core
from testkit.engine_runs import collect, drain, make_request
from testkit.specialisations import CompilingDevice

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="tensors are the CPU's"
)

CONTEXT = 1_024
SPECIAL = (
    {"repetition_penalty": 1.2, "logprobs": 2},
    {"dry": DryParams(1.0), "logit_bias": ((3, 1.0),)},
    {"min_tokens": 3, "stop_token_ids": (5,)},
    {"num_samples": 3},
    {"num_samples": 2, "beam": BeamParams(3), "temperature": 0.0, "seed": None},
    {"prompt_logprobs": 2},
)
MODELS = {
    "four heads a KV head": {},
    "three of three, no power of two": {"num_heads": 9, "num_kv_heads": 3},
    "a window": {"sliding_window": 400},
    "norms of queries and keys": {"has_qk_norm": True},
    "4 bits, and 8 for the head": {"weights": "int4", "hidden_size": 640},
    "8 bits, tied": {"weights": "int8", "is_tied": True},
    "no norms before, those of queries and keys over all heads, no rotations in a layer": {
        "num_layers": 2,
        "has_pre_norms": False,
        "has_post_norms": True,
        "has_qk_norm": True,
        "has_wide_qk_norm": True,
        "unrotated_layers": (1,),
    },
    "windows in some layers, norms behind, caps": {
        "num_layers": 2,
        "sliding_window": 400,
        "full_layers": (1,),
        "local_rope_theta": 100.0,
        "has_post_norms": True,
        "activation": "gelu_tanh",
        "embed_scale": 2.0,
        "attention_softcap": 5.0,
        "logit_softcap": 3.0,
    },
}


def make(
    *,
    kv_dtype=torch.bfloat16,
    num_blocks=256,
    host_blocks=0,
    max_running=8,
    weights="dense",
    **shape,
):
    config = DecoderConfig(
        **{
            "architecture": "tiny",
            "vocab_size": 99,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_layers": 1,
            "num_heads": 8,
            "num_kv_heads": 2,
            "head_dim": 16,
            "context_length": CONTEXT,
            "rms_norm_eps": 1e-6,
            "rope_theta": 1e4,
            **shape,
        }
    )
    layout = tensor_layout(config)
    state = {}
    for fused in layout:
        form = form_of(fused, (), weights, is_tied=config.is_tied)
        if form == "dense":
            state[fused.name] = torch.zeros(fused.shape, dtype=torch.bfloat16)
        else:
            made = empty_quantised(fused.shape, form, None)
            stem = fused.name.removesuffix(".weight")
            state |= {f"{stem}.{form}": made.numbers, f"{stem}.{form}_scales": made.scales.zero_()}
    device = CompilingDevice()
    runners = []

    def make_runner(kv):
        runner = GpuRunner(
            decoder,
            kv,
            device,
            context_blocks=CONTEXT // 16,
            max_rows=max_running,
            vocab_size=config.vocab_size,
            step_tokens=128,
        )
        runners.append(runner)
        return runner

    decoder = NativeDecoder(config, state, operators=triton_operators())
    core = make_decoder_core(
        decoder,
        num_blocks=num_blocks,
        kv_dtype=kv_dtype,
        max_running=max_running,
        step_tokens=128,
        host_blocks=host_blocks,
        host_use="always",
        make_runner=make_runner,
        max_drafts=0,
    )
    return core, runners[0], device


def ask_everything(core, *, again=0):
    """Ask in all the ways that there are: alone, together, long, short, with what others said."""
    outcomes = {}
    number = 1_000 * again
    for length in (1, 2, 3, 15, 16, 17, 63, 64, 65, 66, 100, 127, 128, 129, 300, 600):
        prompt = [(number % 1_000 * 7 + i) % 90 + 1 for i in range(length)]
        request = make_request(f"{number}", prompt, max_tokens=3, temperature=0.5, seed=1)
        collect(outcomes, core.submit(request))
        drain(core, outcomes)
        number += 1
    for count in (2, 3, 5, 8, 11):
        for i in range(count):
            shared = [7] * (300 if count % 2 else 20)
            options = {"temperature": 0.5, "seed": 1, **SPECIAL[i % len(SPECIAL)]}
            prompt = [*shared, i + 1, *range(1, 5 + 9 * i)]
            request = make_request(f"{number}", prompt, max_tokens=6, **options)
            collect(outcomes, core.submit(request))
            number += 1
            for _ in range(i % 3):
                collect(outcomes, core.step())
        drain(core, outcomes)
    assert all(outcome.fail is None for outcome in outcomes.values())


@pytest.mark.parametrize("shape", MODELS.values(), ids=MODELS)
def test_whatever_is_asked_first_compiles_nothing(shape):
    core, runner, device = make(**shape)
    told = []
    runner.warm_up(lambda done, total: told.append((done, total)))
    assert told[0][0] == 0 and told[-1][0] == told[-1][1] == len(told) - 1
    assert runner.num_graphs == 1
    built = set(device.built)
    assert len(built) >= 8
    ask_everything(core)
    assert [key for key in device.built if key not in built] == []
    assert runner.num_graphs > 3


@pytest.mark.parametrize("kv_dtype", [torch.int8, torch.float8_e4m3fn], ids=str)
def test_a_pool_too_small_that_swaps_compiles_nothing(kv_dtype):
    core, runner, device = make(kv_dtype=kv_dtype, num_blocks=80, host_blocks=200)
    runner.warm_up()
    built = set(device.built)
    ask_everything(core)
    ask_everything(core, again=1)
    assert core.snapshot().swapped_in_blocks > 0
    assert [key for key in device.built if key not in built] == []


def test_nothing_is_compiled_while_a_step_is_recorded():
    core, runner, device = make()
    ask_everything(core)  # nothing was compiled before
    assert runner.num_graphs > 4 and device.built
    assert device.in_graphs == []


def test_without_graphs_it_is_the_same():
    core, runner, device = make()
    runner._has_graphs = False
    runner.warm_up()
    built = set(device.built)
    ask_everything(core)
    assert device.num_captures == 0
    assert [key for key in device.built if key not in built] == []


def test_a_device_that_compiles_nothing_is_not_kept_waiting():
    _, runner, device = make()
    device.compiles = False
    runner.warm_up()
    assert device.num_captures == 1 and len(device.built) < 10
