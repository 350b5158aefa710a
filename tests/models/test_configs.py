"""Configs mean what transformers and llama.cpp take them for, or the model is refused by name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from localpaged.decoder_config import DecoderConfig, Llama3RopeScaling
from localpaged.errors import BadModelFile, ModelError, UnsupportedModel
from localpaged.models.gguf_config import gguf_decoder_config
from localpaged.models.gguf_file import read_gguf_header
from localpaged.models.open_model import open_model
from localpaged.models.transformers_config import transformers_decoder_config
from testkit import gguf_files as make
from testkit.tiny_model import (
    FAMILIES,
    MORE_FAMILIES,
    build_config,
    build_tokenizer,
    save_tiny_model,
)

if TYPE_CHECKING:
    from pathlib import Path


def saved_config(folder: Path, family: str, **overrides: Any) -> Path:
    build_config(family, **overrides).save_pretrained(folder)
    return folder


def edited_config(folder: Path, family: str, *, drop: tuple[str, ...] = (), **fields: Any) -> Path:
    saved_config(folder, family)
    path = folder / "config.json"
    content = {**json.loads(path.read_text()), **fields}
    path.write_text(json.dumps({key: value for key, value in content.items() if key not in drop}))
    return folder


def test_a_llama_folder_is_read_whole(tmp_path: Path):
    assert transformers_decoder_config(saved_config(tmp_path, "llama3-rope")) == DecoderConfig(
        architecture="llama",
        vocab_size=320,
        hidden_size=64,
        intermediate_size=96,
        num_layers=3,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
        context_length=512,
        rms_norm_eps=1e-6,
        rope_theta=10_000.0,
        rope_scaling=Llama3RopeScaling(4.0, 1.0, 4.0, 64),
        is_tied=True,
    )


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen2"])
@pytest.mark.parametrize("spelling", ["explicit", "null", "absent"])
def test_head_dim_is_the_configs_or_hidden_by_heads(tmp_path: Path, family: str, spelling: str):
    if spelling == "explicit":
        folder = edited_config(tmp_path, family, head_dim=32)
    elif spelling == "null":
        folder = edited_config(tmp_path, family, head_dim=None)
    else:
        folder = edited_config(tmp_path, family, drop=("head_dim",))

    config = transformers_decoder_config(folder)

    assert config.head_dim == (32 if spelling == "explicit" else 16)


@pytest.mark.parametrize("head_dim", [32, 80, 96])
def test_odd_head_dims_load_with_weights(tmp_path: Path, head_dim: int):
    folder = save_tiny_model(tmp_path / "folder", "qwen3", head_dim=head_dim)
    path = make.save_tiny_gguf(tmp_path, "qwen3", head_dim=head_dim)

    assert open_model(folder).config.head_dim == head_dim
    assert open_model(path).config.head_dim == head_dim


def test_families_differ_in_bias_and_norms(tmp_path: Path):
    traits = {}
    for family in ("llama", "mistral", "qwen2", "qwen3"):
        config = transformers_decoder_config(saved_config(tmp_path / family, family))
        traits[family] = (config.has_qkv_bias, config.has_qk_norm)

    assert traits == {
        "llama": (False, False),
        "mistral": (False, False),
        "qwen2": (True, False),
        "qwen3": (False, True),
    }


def test_a_window_counts_only_where_the_config_switches_it_on(tmp_path: Path):
    def window(name: str, family: str, **fields: Any) -> int | None:
        config = transformers_decoder_config(saved_config(tmp_path / name, family, **fields))
        return config.sliding_window

    assert window("a", "mistral", sliding_window=24) == 24
    assert window("b", "mistral", sliding_window=None) is None
    assert window("c", "qwen2", sliding_window=24, use_sliding_window=False) is None
    all_layers = {"use_sliding_window": True, "max_window_layers": 0}
    assert window("d", "qwen3", sliding_window=24, **all_layers) == 24


def test_layers_may_mix_windows(tmp_path: Path):
    folder = saved_config(
        tmp_path, "qwen3", sliding_window=24, use_sliding_window=True, max_window_layers=1
    )

    config = transformers_decoder_config(folder)

    assert [config.window(layer) for layer in range(3)] == [None, 24, 24]
    assert config.local_rope_theta is None


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"model_type": "mixtral"}, "architecture mixtral"),
        ({"model_type": "qwen3_moe"}, "architecture qwen3_moe"),
        ({"model_type": "esc\x1b[2J"}, "architecture esc␛"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "SequenceClassification"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantised with gptq"),
        ({"attention_bias": True}, "attention_bias"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"hidden_act": "gelu"}, "hidden_act gelu"),
        (
            {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 1e4}},
            "rope type yarn",
        ),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
    ],
)
def test_what_the_decoder_cannot_do_is_refused_by_name(
    tmp_path: Path, fields: dict[str, Any], sentence: str
):
    with pytest.raises(UnsupportedModel, match=sentence):
        transformers_decoder_config(edited_config(tmp_path, "llama", **fields))


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"model_type": "llama", "hidden_size": "x"}', "[" * 100_000]
)
def test_a_broken_config_is_refused(tmp_path: Path, content: str):
    (tmp_path / "config.json").write_text(content)

    with pytest.raises(ModelError):
        transformers_decoder_config(tmp_path)


def test_the_older_spelling_of_rope_scaling_is_understood(tmp_path: Path):
    rope = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    }
    folder = edited_config(
        tmp_path, "llama", drop=("rope_parameters",), rope_scaling=rope, rope_theta=500_000.0
    )

    config = transformers_decoder_config(folder)

    assert config.rope_theta == 500_000.0
    assert config.rope_scaling == Llama3RopeScaling(8.0, 1.0, 4.0, 8192)


@pytest.mark.parametrize(
    "family", [*(family for family in FAMILIES if family != "llama3-rope"), *MORE_FAMILIES]
)
def test_a_gguf_file_says_the_same_as_the_folder(tmp_path: Path, family: str):
    # no file tells by what queries are scaled where that is not the size of a head
    fields: dict[str, Any] = {"query_pre_attn_scalar": 32} if family in ("gemma2", "gemma3") else {}
    folder = transformers_decoder_config(saved_config(tmp_path / "folder", family, **fields))
    header = read_gguf_header(make.save_tiny_gguf(tmp_path, family, **fields))

    config = gguf_decoder_config(header)

    assert config.architecture == ("llama" if family == "mistral" else folder.architecture)
    assert config.rms_norm_eps == pytest.approx(folder.rms_norm_eps)
    for name in [
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_layers",
        "num_heads",
        "num_kv_heads",
        "head_dim",
        "context_length",
        "rope_theta",
        "has_qkv_bias",
        "has_qk_norm",
        "is_tied",
        "sliding_window",
        "full_layers",
        "local_rope_theta",
        "rope_scaling",
        "activation",
        "has_post_norms",
        "embed_scale",
        "softmax_scale",
        "attention_softcap",
        "logit_softcap",
        "last_norm_scale",
        "has_pre_norms",
        "has_wide_qk_norm",
        "unrotated_layers",
    ]:
        expected = getattr(folder, name)
        is_number = isinstance(expected, float)
        assert getattr(config, name) == (pytest.approx(expected) if is_number else expected), name


def gguf_config(tmp_path: Path, **metadata: Any) -> DecoderConfig:
    entries = {key.replace("__", "."): value for key, value in metadata.items()}
    return gguf_decoder_config(
        read_gguf_header(make.save_tiny_gguf(tmp_path, "llama", metadata=entries))
    )


def test_gguf_defaults_are_those_of_llama_cpp(tmp_path: Path):
    config = gguf_config(
        tmp_path,
        attention__head_count_kv=None,
        attention__key_length=None,
        attention__value_length=None,
        rope__freq_base=None,
        rope__dimension_count=None,
    )

    assert config.num_kv_heads == config.num_heads == 4
    assert config.head_dim == 16
    assert config.rope_theta == 10_000.0


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"expert_count": 8}, "llama with 8 experts"),
        ({"rope__scaling__type": "yarn"}, "rope scaling yarn"),
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ({"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
        ({"rope__dimension_count": 8}, "rotates 8 of 16"),
        ({"attention__value_length": 8}, "values of 8"),
        ({"attention__causal": False}, "embedding model"),
        ({"logit_scale": 0.5}, "logit_scale"),
        ({"attention__head_count_kv": [2, 1, 2]}, "differs from layer to layer"),
    ],
)
def test_gguf_features_the_decoder_lacks_are_refused_by_name(
    tmp_path: Path, metadata: dict[str, Any], sentence: str
):
    with pytest.raises(UnsupportedModel, match=sentence):
        gguf_config(tmp_path, **metadata)


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"block_count": None}, "block_count is missing"),
        ({"block_count": 0}, "block_count is 0"),
        ({"block_count": 2**31}, "block_count is 2147483648"),
        ({"block_count": "x" * 5_000}, "block_count is 'x{39}\\."),
        ({"attention__head_count": "four"}, "head_count is 'four'"),
        ({"attention__layer_norm_rms_epsilon": float("nan")}, "epsilon is nan"),
        ({"rope__freq_base": -1.0}, "freq_base is -1.0"),
    ],
)
def test_gguf_values_that_cannot_be_are_refused(
    tmp_path: Path, metadata: dict[str, Any], sentence: str
):
    with pytest.raises(BadModelFile, match=sentence):
        gguf_config(tmp_path, **metadata)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"num_hidden_layers": 10**9}, "1000000000 layers"),
        ({"num_hidden_layers": 0}, "0 layers"),
        ({"num_hidden_layers": "\x1b"}, "␛ layers"),
        ({"vocab_size": -1}, "vocabulary -1"),
        ({"num_attention_heads": 4, "num_key_value_heads": 3}, "4 heads over 3 KV heads"),
        ({"head_dim": 15}, "even rotary dimension"),
    ],
)
def test_sizes_no_decoder_has_are_refused_at_once(
    tmp_path: Path, fields: dict[str, Any], sentence: str
):
    with pytest.raises(BadModelFile, match=sentence):
        open_model(edited_config(tmp_path, "qwen3", **fields))


def test_an_odd_head_dimension_of_a_gguf_file_is_refused(tmp_path: Path):
    keys = ("attention.key_length", "attention.value_length", "rope.dimension_count")
    path = make.save_tiny_gguf(tmp_path, "llama", metadata=dict.fromkeys(keys, 15))

    with pytest.raises(BadModelFile, match="odd head dimension 15"):
        open_model(path)


@pytest.mark.parametrize("architecture", ["qwen3moe", "mamba", "gpt-oss", "\x1b]0;x\x07"])
def test_another_architecture_is_named_and_not_called_damaged(tmp_path: Path, architecture: str):
    entries = [
        make.text_entry("general.architecture", architecture),
        make.u32_entry(f"{architecture}.expert_count", 8),
    ]
    path = make.write_header(tmp_path / "moe.gguf", entries=entries)

    with pytest.raises(UnsupportedModel, match="is not supported") as caught:
        open_model(path)

    assert "\x1b" not in caught.value.message


def test_a_later_part_of_a_split_file_names_the_first(tmp_path: Path):
    entries = [
        make.entry("split.no", 2, b"\1\0"),
        make.entry("split.count", 2, b"\3\0"),
    ]
    path = make.write_header(tmp_path / "big-00002-of-00003.gguf", entries=entries)

    with pytest.raises(UnsupportedModel, match=r"part 2 of 3 .*big-00001-of-00003\.gguf"):
        open_model(path)


@pytest.mark.parametrize("kind", ["adapter", "mmproj"])
def test_a_file_that_is_no_model_is_told(tmp_path: Path, kind: str):
    entries = [
        make.text_entry("general.type", kind),
        make.text_entry("general.architecture", "llama"),
    ]

    with pytest.raises(UnsupportedModel, match=f"of type {kind}"):
        open_model(make.write_header(tmp_path / "lora.gguf", entries=entries))


@pytest.mark.parametrize("type_name", ["Q8_1", "F64", "I8"])
def test_a_tensor_that_cannot_be_dequantised_is_refused_at_once(tmp_path: Path, type_name: str):
    import gguf

    entries, tensors = [], []
    whole = make.save_tiny_gguf(tmp_path, "llama")
    header = read_gguf_header(whole)
    type_ = int(gguf.GGMLQuantizationType[type_name])
    entries = [make.text_entry("general.architecture", "llama")]
    for key in ("embedding_length", "feed_forward_length", "block_count", "context_length"):
        entries.append(make.u32_entry(f"llama.{key}", int(str(header.metadata[f"llama.{key}"]))))
    entries.append(make.u32_entry("llama.attention.head_count", 4))
    epsilon = make.entry("llama.attention.layer_norm_rms_epsilon", make.FLOAT32, b"\0\0\x80\x3f")
    entries.append(epsilon)
    tensors = [
        make.tensor_entry("token_embd.weight", [64, 320], type_=0),
        make.tensor_entry("blk.0.ffn_up.weight", [64, 96], type_=type_, offset=81_920),
    ]
    path = make.write_header(
        tmp_path / "odd.gguf", entries=entries, tensors=tensors, data=bytes(200_000)
    )

    with pytest.raises(UnsupportedModel, match=rf"blk\.0\.ffn_up\.weight has the type {type_name}"):
        open_model(path)


def test_missing_extra_and_misshapen_gguf_tensors_are_named(tmp_path: Path):
    with pytest.raises(BadModelFile, match=r"lacks the tensors blk\.3\.attn_norm\.weight, "):
        open_model(make.save_tiny_gguf(tmp_path / "a", "llama", metadata={"block_count": 4}))
    with pytest.raises(BadModelFile, match=r"blk\.2\.attn_k\.weight.* and \d+ more that its"):
        open_model(make.save_tiny_gguf(tmp_path / "b", "llama", metadata={"block_count": 2}))
    wide = make.save_tiny_gguf(tmp_path / "c", "llama", metadata={"feed_forward_length": 128})
    with pytest.raises(BadModelFile, match=r"blk\.0\.ffn_gate\.weight has shape \[96, 64\]"):
        open_model(wide)


def test_a_tokenizer_that_is_not_bpe_is_refused(tmp_path: Path):
    from tokenizers import Tokenizer, models

    folder = save_tiny_model(tmp_path / "unigram", "llama")
    tokenizer = build_tokenizer()
    tokenizer._tokenizer = Tokenizer(models.Unigram([("a", 0.0)], 0, False))
    tokenizer.save_pretrained(folder)

    with pytest.raises(UnsupportedModel, match="tokenizer Unigram"):
        open_model(folder)
