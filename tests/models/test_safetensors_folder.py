"""Shards are checked to be whole; what the index does not name is never read."""

from __future__ import annotations

import json
import os
import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from localpaged.errors import BadModelFile, ModelError, UnsupportedModel
from localpaged.models.open_model import open_model
from localpaged.models.weights import load_state
from testkit.tiny_model import build_tiny_model, save_tiny_model

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """A folder with two shards and their index."""
    folder = save_tiny_model(tmp_path / "sharded", "llama")
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names = sorted(tensors)
    halves = {FIRST: names[: len(names) // 2], SECOND: names[len(names) // 2 :]}
    for shard, part in halves.items():
        save_file({name: tensors[name] for name in part}, folder / shard)
    weight_map = {name: shard for shard, part in halves.items() for name in part}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return folder


def assert_loads_right(folder: Path) -> None:
    state = load_state(open_model(folder), dtype=torch.float32)

    source = build_tiny_model("llama").state_dict()
    assert torch.equal(state["embed.weight"], source["model.embed_tokens.weight"])
    assert torch.equal(state["head.weight"], source["lm_head.weight"])
    assert torch.equal(state["layers.2.down.weight"], source["model.layers.2.mlp.down_proj.weight"])


def test_shards_load_together(sharded: Path):
    assert_loads_right(sharded)


def test_a_missing_shard_is_named(sharded: Path):
    (sharded / SECOND).unlink()

    with pytest.raises(BadModelFile, match=f"lacks {SECOND}"):
        open_model(sharded)


def test_a_short_shard_is_named_with_its_sizes(sharded: Path):
    whole = (sharded / SECOND).stat().st_size
    os.truncate(sharded / SECOND, whole - 1_000)

    with pytest.raises(BadModelFile, match=f"{SECOND} is incomplete: expected {whole:,} bytes"):
        open_model(sharded)


def test_a_stray_single_file_does_not_override_the_shards(sharded: Path):
    names = json.loads((sharded / INDEX).read_text())["weight_map"]
    source = build_tiny_model("llama").state_dict()
    save_file(
        {name: torch.zeros_like(source[name]) for name in names}, sharded / "model.safetensors"
    )
    save_file({name: torch.zeros_like(source[name]) for name in names}, sharded / "zz.safetensors")

    assert_loads_right(sharded)


def test_a_duplicate_that_the_index_does_not_assign_is_ignored(sharded: Path):
    tensors = load_file(sharded / FIRST)
    tensors["model.norm.weight"] = torch.zeros(64)
    save_file(tensors, sharded / FIRST)

    assert_loads_right(sharded)


def test_a_tensor_that_the_index_promises_must_be_there(sharded: Path):
    tensors = load_file(sharded / SECOND)
    del tensors["model.norm.weight"]
    save_file(tensors, sharded / SECOND)

    with pytest.raises(BadModelFile, match=rf"{SECOND} lacks the tensor model\.norm\.weight"):
        open_model(sharded)


@pytest.mark.parametrize(
    "name", ["../x.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", 7]
)
def test_an_index_cannot_lead_out_of_the_folder(sharded: Path, name: Any):
    index = json.loads((sharded / INDEX).read_text())
    index["weight_map"]["model.norm.weight"] = name
    (sharded / INDEX).write_text(json.dumps(index))

    with pytest.raises(BadModelFile, match="outside its folder"):
        open_model(sharded)


@pytest.mark.parametrize(
    "index", ["", "[]", "{}", '{"weight_map": {}}', '{"weight_map": 1}', "[" * 100_000, "\xff"]
)
def test_a_broken_index_is_refused(sharded: Path, index: str):
    (sharded / INDEX).write_text(index, encoding="latin-1")

    with pytest.raises(BadModelFile, match=r"index\.json"):
        open_model(sharded)


def with_header(folder: Path, header: bytes, *, length: int | None = None) -> None:
    claimed = len(header) if length is None else length
    path = folder / "model.safetensors"
    path.write_bytes(claimed.to_bytes(8, "little") + header + bytes(64))


def one_tensor(**entry: Any) -> bytes:
    sound = {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]}
    return json.dumps({"model.norm.weight": {**sound, **entry}}).encode()


@pytest.mark.parametrize(
    ("header", "length", "sentence"),
    [
        (b"{}", 2**60, "claims a header of 1,152,921,504,606,846,976 bytes"),
        (b"{}", 2**20, "incomplete"),
        (b"[" * 200_000, None, "no JSON object"),
        (b"\xff\xfe", None, "no JSON object"),
        (b"[]", None, "no JSON object"),
        (one_tensor(shape=[2**40, 2**40]), None, "has 64 bytes, not"),
        (one_tensor(shape=[-4, -4]), None, "damaged"),
        (one_tensor(shape=[4.0, 4]), None, "damaged"),
        (one_tensor(shape="44"), None, "damaged"),
        (one_tensor(data_offsets=[64, 0]), None, "has -64 bytes"),
        (one_tensor(data_offsets=[2**50, 2**50 + 64]), None, "incomplete"),
        (one_tensor(data_offsets=None), None, "damaged"),
        (b'{"model.norm.weight": 1}', None, "damaged"),
        (one_tensor(data_offsets=[0]), None, "damaged"),
    ],
)
def test_a_crafted_header_is_refused_at_once(
    tmp_path: Path, header: bytes, length: int | None, sentence: str
):
    folder = save_tiny_model(tmp_path / "crafted", "llama")
    with_header(folder, header, length=length)
    started = time.monotonic()

    with pytest.raises(BadModelFile, match=sentence):
        open_model(folder)

    assert time.monotonic() - started < 1


def test_a_type_that_is_not_read_is_named(tmp_path: Path):
    folder = save_tiny_model(tmp_path / "fp8", "llama")
    with_header(folder, one_tensor(dtype="F8_E4M3", data_offsets=[0, 16]))

    with pytest.raises(UnsupportedModel, match=r"model\.norm\.weight has the type F8_E4M3"):
        open_model(folder)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_files_load(tmp_path: Path, dtype: torch.dtype):
    folder = save_tiny_model(tmp_path / "half", "llama")
    tensors = load_file(folder / "model.safetensors")
    save_file({name: t.to(dtype) for name, t in tensors.items()}, folder / "model.safetensors")

    state = load_state(open_model(folder), dtype=torch.float32)

    assert torch.equal(state["norm.weight"], tensors["model.norm.weight"].to(dtype).float())


def test_weights_of_another_format_are_told(tmp_path: Path):
    folder = save_tiny_model(tmp_path / "bin", "llama")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")

    with pytest.raises(UnsupportedModel, match=r"pytorch_model\.bin"):
        open_model(folder)


def test_a_folder_without_weights_is_told(tmp_path: Path):
    folder = save_tiny_model(tmp_path / "none", "llama")
    (folder / "model.safetensors").unlink()

    with pytest.raises(BadModelFile, match=r"has no model\.safetensors"):
        open_model(folder)


def rewrite(folder: Path, change: Any) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_missing_extra_and_misshapen_tensors_are_named(tmp_path: Path):
    folder = save_tiny_model(tmp_path / "tiny", "qwen3")
    changes = {
        "missing": lambda t: t.pop("model.layers.1.self_attn.k_norm.weight"),
        "extra": lambda t: t.update({"model.layers.0.mlp.router.weight": torch.zeros(2, 2)}),
        "shape": lambda t: t.update({"model.norm.weight": torch.zeros(63)}),
    }
    sentences = {
        "missing": r"lacks the tensor model\.layers\.1\.self_attn\.k_norm\.weight",
        "extra": r"has the tensor model\.layers\.0\.mlp\.router\.weight",
        "shape": r"model\.norm\.weight has shape \[63\], its config asks for \[64\]",
    }
    for kind, change in changes.items():
        copy = tmp_path / kind
        shutil.copytree(folder, copy)
        rewrite(copy, change)
        with pytest.raises(BadModelFile, match=sentences[kind]):
            open_model(copy)


def test_a_head_that_a_tied_model_saved_as_well_is_ignored(tmp_path: Path):
    folder = save_tiny_model(tmp_path / "tied", "llama-tied")
    rewrite(folder, lambda tensors: tensors.update({"lm_head.weight": torch.zeros(320, 64)}))

    assert "head.weight" not in load_state(open_model(folder), dtype=torch.float32)


def test_a_saved_rope_table_is_ignored(tmp_path: Path):
    folder = save_tiny_model(tmp_path / "old", "llama")
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    rewrite(folder, lambda tensors: tensors.update({name: torch.zeros(8)}))

    assert open_model(folder).config.num_layers == 3


def test_a_folder_that_is_no_model_is_told(tmp_path: Path):
    with pytest.raises(ModelError, match=r"has no config\.json"):
        open_model(tmp_path)
