"""Configs with values that cannot be: one sentence and a hint, whatever kind the values are of."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from localpaged.cli.main import main
from localpaged.errors import BadModelFile, ModelError
from localpaged.models.gguf_config import gguf_decoder_config, gguf_tensor_places
from localpaged.models.gguf_file import read_gguf_header
from localpaged.models.open_model import open_model
from testkit.gguf_files import save_tiny_gguf
from testkit.tiny_model import build_config, save_tiny_model

if TYPE_CHECKING:
    from pathlib import Path

LINEAR: dict[str, Any] = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "rope_theta": 1e4,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
NAN, INF = float("nan"), float("inf")


def damaged(folder: Path, family: str, fields: dict[str, Any]) -> Path:
    save_tiny_model(folder, family)
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))
    return folder


@pytest.mark.parametrize(
    ("family", "fields"),
    [
        ("llama", {"architectures": 3}),
        ("llama", {"architectures": {"a": 1}}),
        ("gemma2", {"query_pre_attn_scalar": "many"}),
        ("gemma2", {"query_pre_attn_scalar": 10**400}),
        ("gemma2", {"final_logit_softcapping": [1]}),
        ("gemma2", {"final_logit_softcapping": 1e300}),
        ("gemma2", {"hidden_size": 10**400}),
        ("gemma2", {"rms_norm_eps": -1.0}),
        ("gemma2", {"sliding_window": -3}),
        ("gemma3", {"rope_parameters": {"full_attention": 3}}),
        ("gemma3", {"text_config": 5}),
        ("granite", {"num_attention_heads": 0}),
        ("granite", {"residual_multiplier": 1e-200}),
        ("granite", {"residual_multiplier": 1e300}),
        ("granite", {"attention_multiplier": 1e300}),
        ("granite", {"logits_scaling": 1e-320}),
        ("smollm3", {"no_rope_layers": 7}),
        ("smollm3", {"rms_norm_eps": NAN}),
        ("olmo2", {"rms_norm_eps": INF}),
        ("olmo2", {"rope_parameters": LINEAR | {"rope_theta": 0}}),
        ("olmo2", {"rope_parameters": LINEAR | {"rope_theta": -1}}),
        ("olmo2", {"rope_parameters": LINEAR | {"rope_theta": {}}}),
        ("llama", {"rope_parameters": LINEAR | {"factor": 0}}),
        ("llama", {"rope_parameters": LINEAR | {"factor": NAN}}),
        ("llama", {"rope_parameters": LINEAR | {"factor": "x"}}),
        ("llama", {"rope_parameters": LINEAR | {"factor": None}}),
        *(
            ("llama", {"rope_parameters": {**LLAMA3, key: value}})
            for key, value in (
                ("factor", 0),
                ("low_freq_factor", NAN),
                ("low_freq_factor", 4.0),
                ("high_freq_factor", -1.0),
                ("original_max_position_embeddings", 0),
                ("original_max_position_embeddings", 10**400),
            )
        ),
    ],
)
def test_a_folder_with_values_that_cannot_be_is_refused_in_one_sentence(
    tmp_path: Path, family: str, fields: dict[str, Any]
):
    with pytest.raises(BadModelFile) as refused:
        open_model(damaged(tmp_path / "m", family, fields))
    assert refused.value.hint
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    ("family", "entries"),
    [
        ("granite", {"residual_scale": 1e-30}),
        ("granite", {"logit_scale": 3.4e38, "residual_scale": 1e-30}),
        ("gemma3", {"attention.sliding_window": -1.0}),
        ("gemma3", {"attention.sliding_window_pattern": [True]}),
        ("gemma3", {"attention.sliding_window_pattern": "all"}),
        ("gemma2", {"attn_logit_softcapping": 0.0}),
        ("gemma2", {"attn_logit_softcapping": INF}),
        ("gemma2", {"final_logit_softcapping": -1.0}),
        ("smollm3", {"rope.freq_base": NAN}),
        ("olmo2", {"rope.scaling.factor": -2.0, "rope.scaling.type": "linear"}),
        ("olmo2", {"attention.layer_norm_rms_epsilon": NAN}),
    ],
)
def test_a_file_with_values_that_cannot_be_is_refused_in_one_sentence(
    tmp_path: Path, family: str, entries: dict[str, Any]
):
    with pytest.raises(BadModelFile) as refused:
        open_model(save_tiny_gguf(tmp_path, family, metadata=entries))
    assert refused.value.hint
    assert "\n" not in refused.value.message


@pytest.mark.parametrize(
    "content",
    [
        {"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"]},
        {"model_type": "gemma3", "text_config": None, "vision_config": {}},
        {"model_type": "gemma3", "text_config": [], "vision_config": 3},
        {"model_type": "siglip_vision_model", "architectures": ["SiglipVisionModel"]},
        {"model_type": "gemma3", "architectures": ["Gemma3Model"]},
    ],
)
def test_what_sees_and_does_not_write_is_refused(tmp_path: Path, content: dict[str, Any]):
    folder = save_tiny_model(tmp_path / "m", "gemma3")
    (folder / "config.json").write_text(json.dumps(content))
    with pytest.raises(ModelError) as refused:
        open_model(folder)
    assert refused.value.hint


def test_the_command_line_ends_with_the_code_for_models(tmp_path: Path):
    folder = damaged(tmp_path / "m", "granite", {"residual_multiplier": 1e-200})
    result = CliRunner().invoke(main, ["ask", "-m", str(folder), "hello"])
    assert result.exit_code == 4
    assert "its config has the" in result.stderr
    assert "hint:" in result.stderr
    assert "Traceback" not in result.stderr


def test_settings_of_other_families_change_nothing(tmp_path: Path):
    content = json.loads(build_config("llama").to_json_string())
    plain = open_model(damaged(tmp_path / "a", "llama", content)).config
    others = {"query_pre_attn_scalar": 3, "no_rope_layers": [0, 1, 0]}
    assert open_model(damaged(tmp_path / "b", "llama", content | others)).config == plain


@pytest.mark.parametrize("family", ["qwen3", "gemma3", "olmo2"])
def test_a_file_of_a_family_that_normalises_heads_has_the_norms(tmp_path: Path, family: str):
    header = read_gguf_header(save_tiny_gguf(tmp_path, family))
    norms = ("attn_q_norm.weight", "attn_k_norm.weight")
    tensors = {name: it for name, it in header.tensors.items() if not name.endswith(norms)}
    without = replace(header, tensors=tensors)
    with pytest.raises(BadModelFile, match=r"lacks the tensors blk\.0\.attn_q_norm\.weight"):
        gguf_tensor_places(without, gguf_decoder_config(without))
