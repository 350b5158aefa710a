"""Loaded weights are transformers' own, fused in the engine's order."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
import torch

from localpaged.errors import BadModelFile
from localpaged.models.open_model import open_model
from localpaged.models.weights import load_state
from testkit.gguf_files import save_tiny_gguf
from testkit.tiny_model import FAMILIES, MORE_FAMILIES, build_tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from localpaged.decoder_config import DecoderConfig

State = dict[str, torch.Tensor]


def expected_state(family: str, config: DecoderConfig) -> State:
    """Fuse transformers' tensors by hand."""
    source = build_tiny_model(family).state_dict()
    if family.startswith("gemma"):
        source = {n: t + 1 if n.endswith("norm.weight") else t for n, t in source.items()}
    state = {"embed.weight": source["model.embed_tokens.weight"]}
    for i in range(config.num_layers):
        ours, theirs = f"layers.{i}.", f"model.layers.{i}."
        if config.has_pre_norms:
            state[ours + "attn_norm.weight"] = source[theirs + "input_layernorm.weight"]
        for end in ("weight", "bias") if config.has_qkv_bias else ("weight",):
            parts = [source[f"{theirs}self_attn.{name}_proj.{end}"] for name in "qkv"]
            state[f"{ours}qkv.{end}"] = torch.cat(parts)
        if config.has_qk_norm:
            state[ours + "q_norm.weight"] = source[theirs + "self_attn.q_norm.weight"]
            state[ours + "k_norm.weight"] = source[theirs + "self_attn.k_norm.weight"]
        state[ours + "o.weight"] = source[theirs + "self_attn.o_proj.weight"]
        behind = source[theirs + "post_attention_layernorm.weight"]
        if config.has_post_norms:
            state[ours + "attn_post_norm.weight"] = behind
            if config.has_pre_norms:
                before = source[theirs + "pre_feedforward_layernorm.weight"]
                state[ours + "mlp_norm.weight"] = before
            last = source[theirs + "post_feedforward_layernorm.weight"]
            state[ours + "mlp_post_norm.weight"] = last
        else:
            state[ours + "mlp_norm.weight"] = behind
        parts = [source[f"{theirs}mlp.{name}_proj.weight"] for name in ("gate", "up")]
        state[ours + "gate_up.weight"] = torch.cat(parts)
        state[ours + "down.weight"] = source[theirs + "mlp.down_proj.weight"]
    state["norm.weight"] = source["model.norm.weight"] * config.last_norm_scale
    if not config.is_tied:
        state["head.weight"] = source["lm_head.weight"]
    return state


def assert_same(found: State, expected: State) -> None:
    assert set(found) == set(expected)
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, name
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize("family", [*FAMILIES, *MORE_FAMILIES])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
def test_a_safetensors_folder_gives_the_fused_state(
    tiny_folder: Callable[[str], Path], family: str, dtype: torch.dtype
):
    opened = open_model(tiny_folder(family))

    state = load_state(opened, dtype=dtype)

    expected = expected_state(family, opened.config)
    assert_same(state, {name: tensor.to(dtype) for name, tensor in expected.items()})


@pytest.mark.parametrize("family", [*FAMILIES, *MORE_FAMILIES])
def test_a_gguf_file_gives_the_same_state(tmp_path: Path, family: str):
    opened = open_model(save_tiny_gguf(tmp_path, family))

    state = load_state(opened, dtype=torch.float32)

    factors = state.pop("rope_factors", None)
    assert (factors is not None) == (family == "llama3-rope")
    assert_same(state, expected_state(family, opened.config))


def test_rope_factors_divide_the_frequencies_as_llama_3_scaling_does(
    tmp_path: Path, tiny_folder: Callable[[str], Path]
):
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    opened = open_model(save_tiny_gguf(tmp_path, "llama3-rope"))
    config = build_tiny_model("llama3-rope").config
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, "cpu")
    dim = opened.config.head_dim
    plain = opened.config.rope_theta ** -(torch.arange(0, dim, 2) / dim)

    factors = load_state(opened, dtype=torch.bfloat16)["rope_factors"]

    assert factors.dtype == torch.float32
    torch.testing.assert_close(plain / factors, scaled)
    assert open_model(tiny_folder("llama3-rope")).config.rope_scaling is not None
    assert opened.config.rope_scaling is None


@pytest.mark.parametrize("quantisation", ["Q8_0", "Q4_1", "BF16", "F16"])
def test_quantised_weights_are_the_librarys_numbers(tmp_path: Path, quantisation: str):
    import gguf

    path = save_tiny_gguf(tmp_path, "qwen2", quantisation=quantisation)
    opened = open_model(path)
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}

    state = load_state(opened, dtype=torch.float32)
    half = load_state(opened, dtype=torch.bfloat16)

    for part, name in enumerate(("ffn_gate", "ffn_up")):
        tensor = tensors[f"blk.1.{name}.weight"]
        numbers = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).copy())
        rows = slice(part * 96, (part + 1) * 96)
        assert torch.equal(state["layers.1.gate_up.weight"][rows], numbers)
        assert torch.equal(half["layers.1.gate_up.weight"][rows], numbers.bfloat16())


@pytest.mark.parametrize("type_name", ["Q4_1", "Q5_K", "Q2_K", "IQ4_NL", "BF16", "Q6_K", "MXFP4"])
def test_one_tensor_of_another_type_is_read_as_that_type(tmp_path: Path, type_name: str):
    import gguf
    import numpy

    from localpaged.models.dequantise import block_size

    items, num_bytes = block_size(type_name)
    random = numpy.random.default_rng(3)
    raw = random.integers(0, 60, (64, 256 // items * num_bytes), dtype=numpy.uint8)
    path = save_tiny_gguf(
        tmp_path,
        "llama",
        quantisation="F16",
        raw_tensors={"blk.1.ffn_down.weight": (type_name, raw)},
        intermediate_size=256,
    )
    misnamed = path.rename(tmp_path / "tiny.Q3_K_S.gguf")

    state = load_state(open_model(misnamed), dtype=torch.float32)

    expected = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[type_name])
    assert torch.equal(state["layers.1.down.weight"], torch.from_numpy(expected.copy()))
    source = build_tiny_model("llama", intermediate_size=256).state_dict()
    other = source["model.layers.0.mlp.down_proj.weight"].half().float()
    assert torch.equal(state["layers.0.down.weight"], other)


def test_tensors_larger_than_a_chunk_are_whole(tmp_path: Path):
    opened = open_model(
        save_tiny_gguf(tmp_path, "llama", intermediate_size=8_192, num_hidden_layers=1)
    )

    state = load_state(opened, dtype=torch.float32)

    source = build_tiny_model("llama", intermediate_size=8_192, num_hidden_layers=1).state_dict()
    down = source["model.layers.0.mlp.down_proj.weight"]
    assert down.numel() > 2**18
    assert torch.equal(state["layers.0.down.weight"], down)


def test_progress_counts_bytes_up_to_the_whole(tmp_path: Path):
    opened = open_model(save_tiny_gguf(tmp_path, "llama3-rope"))
    calls: list[tuple[str, int, int]] = []

    load_state(opened, dtype=torch.float32, on_progress=lambda *call: calls.append(call))

    done = [call[1] for call in calls]
    assert done == sorted(done)
    assert calls[-1][1] == calls[-1][2] == opened.file_bytes
    assert {call[0] for call in calls} == {"Loading weights"}


@pytest.mark.parametrize("change", ["cut", "touched", "removed"])
def test_a_file_that_changed_since_it_was_opened_is_refused(tmp_path: Path, change: str):
    path = save_tiny_gguf(tmp_path, "llama")
    opened = open_model(path)
    if change == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif change == "touched":
        os.utime(path, ns=(0, 1))
    else:
        path.unlink()

    with pytest.raises(BadModelFile, match=r"llama-f32\.gguf"):
        load_state(opened, dtype=torch.float32)


def test_weight_bytes_follow_the_parameters(tiny_folder: Callable[[str], Path]):
    opened = open_model(tiny_folder("qwen3"))
    state = load_state(opened, dtype=torch.bfloat16)

    assert opened.num_parameters == sum(tensor.numel() for tensor in state.values())
    assert opened.weight_bytes(2) == sum(tensor.nbytes for tensor in state.values())


def test_loading_gives_the_torch_threads_back(tiny_folder: Callable[[str], Path]):
    torch.set_num_threads(2)
    try:
        load_state(open_model(tiny_folder("llama")), dtype=torch.float32)

        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
