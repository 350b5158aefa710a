"""Gemma's configs mean what transformers and llama.cpp take them for."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest

from localpaged.decoder_config import DecoderConfig, LinearRopeScaling
from localpaged.errors import BadModelFile, UnsupportedModel
from localpaged.models.gguf_config import gguf_decoder_config
from localpaged.models.gguf_file import read_gguf_header
from localpaged.models.open_model import open_model
from localpaged.models.transformers_config import transformers_decoder_config
from testkit.gguf_files import save_tiny_gguf
from testkit.tiny_model import build_config, build_tokenizer, save_tiny_model

if TYPE_CHECKING:
    from pathlib import Path

TEXT_OF_4B = {
    "hidden_size": 2_560,
    "intermediate_size": 10_240,
    "model_type": "gemma3_text",
    "num_hidden_layers": 34,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    "sliding_window": 1_024,
}


def saved(folder: Path, content: dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(content))
    return folder


def edited(folder: Path, family: str, **fields: Any) -> Path:
    return saved(folder, {**json.loads(build_config(family).to_json_string()), **fields})


def gguf_config(tmp_path: Path, family: str = "gemma3", **entries: Any) -> DecoderConfig:
    metadata = {key.replace("__", "."): value for key, value in entries.items()}
    return gguf_decoder_config(
        read_gguf_header(save_tiny_gguf(tmp_path, family, metadata=metadata))
    )


def test_a_gemma_3_folder_is_read_whole(tmp_path: Path):
    assert transformers_decoder_config(edited(tmp_path, "gemma3")) == DecoderConfig(
        architecture="gemma3",
        vocab_size=320,
        hidden_size=96,
        intermediate_size=96,
        num_layers=3,
        num_heads=4,
        num_kv_heads=2,
        head_dim=32,
        context_length=512,
        rms_norm_eps=1e-6,
        rope_theta=50_000.0,
        rope_scaling=LinearRopeScaling(4.0),
        has_qk_norm=True,
        is_tied=True,
        sliding_window=24,
        full_layers=(1,),
        local_rope_theta=10_000.0,
        activation="gelu_tanh",
        has_post_norms=True,
        embed_scale=math.sqrt(96),
        query_scale=1 / math.sqrt(20),
    )


def test_a_gemma_2_folder_has_both_caps_and_one_base(tmp_path: Path):
    config = transformers_decoder_config(edited(tmp_path, "gemma2"))

    assert (config.attention_softcap, config.logit_softcap) == (6.0, 5.0)
    assert [config.window(layer) for layer in range(3)] == [24, None, 24]
    assert (config.local_rope_theta, config.rope_scaling) == (None, None)
    assert not config.has_qk_norm


def test_of_a_multimodal_config_the_part_for_text_is_read(tmp_path: Path):
    content = {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "text_config": TEXT_OF_4B,
        "vision_config": {"model_type": "siglip_vision_model", "hidden_size": 1_152},
    }

    config = transformers_decoder_config(saved(tmp_path, content))

    assert config.architecture == "gemma3"
    assert (config.num_layers, config.hidden_size, config.head_dim) == (34, 2_560, 256)
    assert (config.rope_theta, config.rope_scaling) == (1e6, LinearRopeScaling(8.0))
    assert (config.sliding_window, config.local_rope_theta) == (1_024, 10_000.0)
    assert config.full_layers == (5, 11, 17, 23, 29)
    assert config.vocab_size == 262_208


def test_a_multimodal_folder_loads_as_the_text_model_that_it_has(tmp_path: Path):
    import torch
    import transformers

    from localpaged.models.weights import load_state

    text = build_config("gemma3")
    vision = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    vision |= {"num_attention_heads": 2, "image_size": 28, "patch_size": 14}
    whole = transformers.Gemma3Config(
        text_config=text.to_dict(), vision_config=vision, mm_tokens_per_image=4, eos_token_id=[2, 7]
    )
    model = transformers.Gemma3ForConditionalGeneration(whole)
    folder = tmp_path / "seeing"
    model.save_pretrained(folder)
    build_tokenizer().save_pretrained(folder)

    opened = open_model(folder)
    state = load_state(opened, dtype=torch.float32)

    own = model.model.language_model
    assert torch.equal(state["embed.weight"], own.embed_tokens.weight)
    assert torch.equal(state["layers.2.down.weight"], own.layers[2].mlp.down_proj.weight)
    assert opened.chat.eos_ids == {2, 7}


@pytest.mark.parametrize(
    ("family", "fields", "sentence"),
    [
        ("gemma3", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("gemma2", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("gemma3", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ("gemma3", {"hidden_activation": "relu"}, "hidden_act relu"),
        ("gemma2", {"attention_bias": True}, "attention_bias"),
        ("gemma2", {"model_type": "gemma3n"}, "architecture gemma3n"),
        ("gemma3", {"architectures": ["Gemma3TextModel"]}, "Gemma3TextModel, which writes no text"),
        ("gemma2", {"layer_types": ["chunked_attention"] * 3}, "layers of the kind chunked"),
        (
            "gemma3",
            {
                "rope_parameters": {
                    "full_attention": {"rope_type": "default", "rope_theta": 1e6},
                    "sliding_attention": {
                        "rope_type": "linear", "rope_theta": 1e4, "factor": 2.0,
                    },
                }
            },
            "linear in layers with a window",
        ),
    ],
)  # fmt: skip
def test_what_the_decoder_cannot_do_is_refused_by_name(
    tmp_path: Path, family: str, fields: dict[str, Any], sentence: str
):
    with pytest.raises(UnsupportedModel, match=sentence):
        transformers_decoder_config(edited(tmp_path, family, **fields))


@pytest.mark.parametrize("fields", [{"query_pre_attn_scalar": 0}, {"attn_logit_softcapping": -1.0}])
def test_numbers_that_cannot_be_divided_by_are_refused(tmp_path: Path, fields: dict[str, Any]):
    with pytest.raises(BadModelFile, match=next(iter(fields))):
        transformers_decoder_config(edited(tmp_path, "gemma2", **fields))


def test_linear_scaling_is_read_for_every_family(tmp_path: Path):
    rope = {"rope_type": "linear", "factor": 2.0, "rope_theta": 20_000.0}

    folder = transformers_decoder_config(edited(tmp_path / "f", "llama", rope_parameters=rope))
    file = gguf_config(tmp_path, "qwen3", rope__scaling__type="linear", rope__scaling__factor=2.0)

    assert (folder.rope_theta, folder.rope_scaling) == (20_000.0, LinearRopeScaling(2.0))
    assert file.rope_scaling == LinearRopeScaling(2.0)


def test_every_sixth_layer_of_a_gemma_3_file_sees_all_unless_it_tells_otherwise(tmp_path: Path):
    def full(pattern: object) -> tuple[int, ...]:
        entries = {"attention.sliding_window_pattern": pattern}
        path = save_tiny_gguf(tmp_path, "gemma3", metadata=entries, num_hidden_layers=7)
        return gguf_decoder_config(read_gguf_header(path)).full_layers

    assert full(None) == (5,)
    assert full(3) == (2, 5)
    assert full([True, False, True, True, True, False, True]) == (1, 5)
    assert full(0) == ()


def test_defaults_of_gemma_files_are_those_of_llama_cpp(tmp_path: Path):
    silent = ("sliding_window", "attn_logit_softcapping", "final_logit_softcapping")
    gone = {f"attention__{silent[0]}": None, **dict.fromkeys(silent[1:])}

    second = gguf_config(tmp_path / "2", "gemma2", **gone)
    third = gguf_config(tmp_path / "3", "gemma3", **gone)

    assert (second.attention_softcap, second.logit_softcap) == (50.0, 30.0)
    assert (second.sliding_window, second.full_layers) == (4_096, (1,))
    assert (third.sliding_window, third.full_layers, third.local_rope_theta) == (None, (), None)


def test_a_file_may_tell_the_base_of_layers_with_a_window(tmp_path: Path):
    assert gguf_config(tmp_path, rope__freq_base_swa=5_000.0).local_rope_theta == 5_000.0


@pytest.mark.parametrize(("family", "layers"), [("gemma2", 46), ("gemma3", 62)])
def test_queries_of_the_largest_models_are_scaled_by_their_width(
    tmp_path: Path, family: str, layers: int
):
    config = gguf_config(tmp_path, family, block_count=layers)

    assert config.softmax_scale == pytest.approx((96 // 4) ** -0.5)
    assert gguf_config(tmp_path, family).softmax_scale == pytest.approx(32**-0.5)


def test_a_record_keeps_what_a_config_says(tmp_path: Path):
    for family in ("gemma2", "gemma3", "llama3-rope"):
        folder = save_tiny_model(tmp_path / family, family)
        first, again = open_model(folder), open_model(folder)

        assert again.config == first.config == transformers_decoder_config(folder)
        assert again.has_norms_less_one == (family != "llama3-rope")
