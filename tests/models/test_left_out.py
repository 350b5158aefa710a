"""A file in the models folder is a model under the name that people gave it, or is told of."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from localpaged import paths
from localpaged.cli.completing import complete_models
from localpaged.cli.models import models
from localpaged.doctor.models import list_facts
from localpaged.models.left_out import left_out
from localpaged.models.registry import find_model, list_entries
from testkit.gguf_files import save_tiny_gguf
from testkit.tiny_model import save_tiny_model


def put(tmp_path: Path, name: str) -> Path:
    """A real model of that file name in the models folder."""
    folder = paths.models_dir()
    folder.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(save_tiny_gguf(tmp_path, "llama"), folder / name))


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(models, arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize("name", ["My Model", "Modèle (1)", "模型", "_a", "it's [b]mine[b]"])
def test_a_model_has_the_name_of_its_file(tmp_path: Path, name: str):
    path = put(tmp_path, f"{name}.gguf")

    listed = run("list")
    assert name in listed.stdout
    assert listed.stderr == ""
    assert find_model(name).path == path
    assert name in run("info", name).stdout
    run("rm", name, "--yes")
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("x\x1b[2J.gguf", "Rename"),
        ("\u202egnp.gguf", "Rename"),
        ("--yes.gguf", "Rename"),
        (" a.gguf", "Rename"),
        ("box#model.gguf", "Rename"),
        ("n" * 129 + ".gguf", "Rename"),
        ("Big.GGUF", "must end with .gguf"),
        ("esc\x1b.json", "Rename"),
        ("old.json", "pull the model again"),
    ],
)
def test_a_file_that_is_not_listed_is_told_with_what_to_do(tmp_path: Path, name: str, advice: str):
    put(tmp_path, "good.gguf")
    put(tmp_path, name)

    listed = run("list")
    (fact,) = [fact for fact in list_facts() if fact.advice]

    assert [entry.name for entry in list_entries()] == ["good"]
    assert advice in listed.stderr
    assert advice in fact.advice
    for text in (listed.output, fact.value):
        assert not {"\x1b", "\u202e"} & set(text)
    assert "good" in listed.stdout


def test_a_name_that_is_no_text_is_told(tmp_path: Path):
    put(tmp_path, os.fsdecode(b"caf\xe9.gguf"))

    assert "Rename" in run("list").stderr


def test_a_folder_is_told_until_an_entry_leads_to_it():
    paths.models_dir().mkdir(parents=True, exist_ok=True)
    folder = save_tiny_model(paths.models_dir() / "My Folder", "qwen3")

    assert f"`localpaged models pull '{folder}'` lists it." in run("list").stderr
    run("pull", str(folder))
    assert left_out() == []


def test_other_files_are_nobodys_business():
    paths.models_dir().mkdir(parents=True, exist_ok=True)
    for name in (".hidden.gguf", "note.txt", "README"):
        (paths.models_dir() / name).write_bytes(b"{}")
    (paths.models_dir() / ".pull-abc").mkdir()

    assert left_out() == []


def test_a_shell_is_offered_names_of_one_word(tmp_path: Path):
    for name in ("one", "My Model"):
        put(tmp_path, f"{name}.gguf")

    offered = complete_models(None, None, "")  # type: ignore[arg-type]
    assert [item.value for item in offered] == ["one"]
