"""What keeps a model from running is told with the setting that it is, by where it was set."""

from __future__ import annotations

import pytest

from localpaged import paths
from testkit.tiny_model import save_tiny_model


@pytest.fixture
def model(tmp_path):
    return save_tiny_model(tmp_path / "tiny", "llama")


def told(look, environment):
    fact = look(environment=environment)["model"]
    return f"{fact.value} {fact.advice}"


def test_a_variable_is_named(look, model):
    environment = {"LOCALPAGED_MODEL": str(model), "LOCALPAGED_DTYPE": "float16"}
    text = told(look, environment)
    assert "LOCALPAGED_DTYPE float16 is for CUDA cards" in text
    assert "Leave out LOCALPAGED_DTYPE" in text
    assert "--dtype" not in text


def test_a_key_of_the_config_file_is_named(look, model):
    paths.ensure_private_dir(paths.config_dir())
    paths.config_file().write_text('[engine]\ndtype = "float16"\n')
    text = told(look, {"LOCALPAGED_MODEL": str(model)})
    assert f"engine.dtype in {paths.config_file()} float16 is for CUDA cards" in text
    assert "--dtype" not in text


def test_a_variable_that_cannot_be_is_named_once(look):
    fact = look(environment={"LOCALPAGED_DTYPE": "int2"})["LOCALPAGED_DTYPE"]
    assert "LOCALPAGED_DTYPE" not in fact.value
