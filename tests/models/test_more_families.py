"""Families of Llama's shape but for a number or a switch: Gemma, Granite 3, SmolLM3, OLMo 2."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from localpaged.errors import BadModelFile, UnsupportedModel
from localpaged.models.gguf_config import gguf_decoder_config
from localpaged.models.gguf_file import read_gguf_header
from localpaged.models.open_model import open_model
from localpaged.models.transformers_config import transformers_decoder_config
from testkit.gguf_files import save_tiny_gguf
from testkit.tiny_model import MORE_FAMILIES, build_config, save_tiny_model

if TYPE_CHECKING:
    from pathlib import Path

    from localpaged.decoder_config import DecoderConfig


def folder_config(folder: Path, family: str, **fields: Any) -> DecoderConfig:
    folder.mkdir(exist_ok=True)
    content = {**json.loads(build_config(family).to_json_string()), **fields}
    (folder / "config.json").write_text(json.dumps(content))
    return transformers_decoder_config(folder)


def file_config(folder: Path, family: str, **entries: Any) -> DecoderConfig:
    metadata = {key.replace("__", "."): value for key, value in entries.items()}
    return gguf_decoder_config(read_gguf_header(save_tiny_gguf(folder, family, metadata=metadata)))


def test_granites_multipliers_are_scales_that_a_decoder_has_anyway(tmp_path: Path):
    config = folder_config(tmp_path, "granite")

    assert config.embed_scale == pytest.approx(6.0 / 0.3)
    assert config.rms_norm_eps == pytest.approx(1e-6 / 0.3**2)
    assert config.softmax_scale == 0.1
    assert config.last_norm_scale == 1 / 4


@pytest.mark.parametrize("missing", [None, 0.0])
def test_multipliers_that_a_file_does_not_have_change_nothing(tmp_path: Path, missing: object):
    names = ("embedding_scale", "residual_scale", "attention__scale", "logit_scale")

    config = file_config(tmp_path, "granite", **dict.fromkeys(names, missing))

    assert (config.embed_scale, config.last_norm_scale) == (1.0, 1.0)
    assert config.softmax_scale == 16**-0.5
    assert config.rms_norm_eps == pytest.approx(1e-6)


def test_a_granite_file_without_rotations_is_refused(tmp_path: Path):
    with pytest.raises(UnsupportedModel, match="granite without rotations"):
        file_config(tmp_path, "granite", rope__scaling__finetuned=False)


@pytest.mark.parametrize("multiplier", ["residual_multiplier", "logits_scaling"])
def test_multipliers_that_cannot_be_divided_by_are_refused(tmp_path: Path, multiplier: str):
    with pytest.raises(BadModelFile, match=multiplier):
        folder_config(tmp_path, "granite", **{multiplier: 0.0})


def test_every_fourth_layer_of_smollm3_rotates_nothing_unless_its_config_tells_otherwise(
    tmp_path: Path,
):
    assert folder_config(tmp_path / "a", "smollm3").unrotated_layers == (3,)
    told = folder_config(tmp_path / "b", "smollm3", no_rope_layers=[0, 1, 1, 0, 0, 0])
    assert told.unrotated_layers == (0, 3)
    path = save_tiny_gguf(tmp_path, "smollm3", num_hidden_layers=9)
    assert gguf_decoder_config(read_gguf_header(path)).unrotated_layers == (3, 7)


def test_the_first_gemma_has_neither_windows_nor_norms_behind(tmp_path: Path):
    config = folder_config(tmp_path, "gemma", hidden_act="gelu")  # the tanh is meant

    assert config.activation == "gelu_tanh"
    assert config.embed_scale == 96**0.5
    assert not config.has_post_norms
    assert config.sliding_window is None


def test_olmo_normalises_what_is_added_alone_and_queries_over_all_heads(tmp_path: Path):
    config = folder_config(tmp_path, "olmo2")

    assert (config.has_pre_norms, config.has_post_norms) == (False, True)
    assert config.has_qk_norm and config.has_wide_qk_norm


def test_windows_and_other_scaling_of_later_olmos_are_refused(tmp_path: Path):
    with pytest.raises(UnsupportedModel, match="olmo2 with a sliding window"):
        file_config(tmp_path, "olmo2", attention__sliding_window=24)
    with pytest.raises(UnsupportedModel, match="architecture olmo3"):
        folder_config(tmp_path / "later", "olmo2", model_type="olmo3")


@pytest.mark.parametrize("family", MORE_FAMILIES)
def test_a_record_keeps_what_a_config_says(tmp_path: Path, family: str):
    folder = save_tiny_model(tmp_path / family, family)
    first, again = open_model(folder), open_model(folder)

    assert again.config == first.config == transformers_decoder_config(folder)
