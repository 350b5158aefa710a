"""A model's file that is written while it is loaded gives no model."""

from __future__ import annotations

import os

import pytest
import torch

from localpaged.config import Settings
from localpaged.engine_factory import load_core
from localpaged.errors import BadModelFile
from localpaged.models.open_model import open_model
from localpaged.models.weights import load_state
from testkit.decoders import needs_eight_bit
from testkit.tiny_model import save_tiny_model


@pytest.fixture
def folder(tmp_path):
    return save_tiny_model(tmp_path / "tiny", "llama")


@pytest.fixture
def overwrite(folder):
    """Overwrite the end of the weights in place, when the first of them were read."""

    def overwrite(*_):
        with (folder / "model.safetensors").open("r+b") as file:
            file.seek(-64, os.SEEK_END)
            file.write(b"\1" * 64)

    return overwrite


def test_weights_that_were_overwritten_meanwhile_are_refused(folder, overwrite):
    opened = open_model(folder)
    with pytest.raises(BadModelFile, match="has changed since"):
        load_state(opened, dtype=torch.float32, on_progress=overwrite)


@needs_eight_bit
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_a_model_that_was_overwritten_meanwhile_does_not_start(folder, overwrite, dtype):
    settings = Settings(str(folder), context_tokens=64, dtype=dtype, weights_disk_bytes=1 << 30)

    def on_load(event):
        if event.unit == "bytes" and event.done and event.stage.startswith(("Round", "Loading")):
            overwrite()

    with pytest.raises(BadModelFile, match="has changed since"):
        load_core(lambda: open_model(folder), settings, on_load)


def test_a_file_that_was_replaced_meanwhile_is_read_as_it_was(folder):
    opened = open_model(folder)
    path = folder / "model.safetensors"

    def replace(*_):
        new = path.with_suffix(".new")
        new.write_bytes(b"another model")
        new.replace(path)

    assert load_state(opened, dtype=torch.float32, on_progress=replace).keys()
