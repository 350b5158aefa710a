"""What KV depends on: every difference that changes KV makes another identity."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from localpaged import kv_keeping
from localpaged.decoder_config import LinearRopeScaling
from localpaged.engine.kv_storage import KVStorage
from localpaged.kv_keeping import kv_identity
from localpaged.models.open_model import open_model
from localpaged.models.opened_model import OpenedModel
from testkit.tiny_model import save_tiny_model


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> OpenedModel:
    return open_model(save_tiny_model(tmp_path_factory.mktemp("m") / "llama", "llama"))


def fingerprint(
    opened: OpenedModel,
    *,
    weights: str = "abc",
    compute: str = "float32",
    kv_dtype: torch.dtype = torch.float32,
    block_size: int = 16,
) -> str:
    kv = KVStorage(opened.config, num_blocks=2, block_size=block_size, dtype=kv_dtype)
    return kv_identity(opened, kv, weights=weights, compute=compute).fingerprint


def test_the_same_computation_has_the_same_identity(opened):
    assert fingerprint(opened) == fingerprint(replace(opened, name="renamed", title="x"))


@pytest.mark.parametrize(
    "change",
    [
        {"weights": "abd"},
        {"compute": "int8"},
        {"kv_dtype": torch.int8},
        {"kv_dtype": torch.bfloat16},
        {"block_size": 32},
    ],
    ids=str,
)
def test_every_way_to_compute_has_its_own(opened, change):
    assert fingerprint(opened, **change) != fingerprint(opened)


@pytest.mark.parametrize(
    "change",
    [
        {"rope_theta": 5e5},
        {"sliding_window": 64},
        {"num_heads": 8},
        {"rms_norm_eps": 1e-3},
        {"has_qk_norm": True},
        {"rope_scaling": LinearRopeScaling(2.0)},
        {"full_layers": (1,)},
        {"local_rope_theta": 1e3},
        {"activation": "gelu_tanh"},
        {"has_post_norms": True},
        {"embed_scale": 8.0},
        {"query_scale": 0.5},
        {"attention_softcap": 50.0},
        {"logit_softcap": 30.0},
        {"unrotated_layers": (0,)},
        {"has_pre_norms": False},
        {"has_wide_qk_norm": True},
    ],
    ids=str,
)
def test_every_decoder_has_its_own(opened, change):
    other = replace(opened, config=replace(opened.config, **change))
    assert fingerprint(other) != fingerprint(opened)


def test_the_same_numbers_may_mean_other_norms(opened):
    assert fingerprint(replace(opened, has_norms_less_one=True)) != fingerprint(opened)


@pytest.mark.parametrize("name", ["__version__", "COMPUTATION"])
def test_every_version_has_its_own(opened, monkeypatch, name):
    before = fingerprint(opened)
    monkeypatch.setattr(kv_keeping, name, "another")
    assert fingerprint(opened) != before
