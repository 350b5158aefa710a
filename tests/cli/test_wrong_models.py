"""Models that cannot be used: one sentence with the name, what to do, exit code 4."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged import paths
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.store.store import Store
from testkit.commands import assert_refused, call
from testkit.gguf_files import add_byte_level_tokenizer, save_tiny_gguf


def test_an_unknown_model_tells_which_are_here(ready_home):
    done = call("ask", "--model", "smollm", "Hi")
    assert_refused(done, 4, "'smollm'", f"Did you mean {DEFAULT_MODEL}?")
    assert_refused(call("ask", "--model", "nix", "Hi"), 4, f"Models here: {DEFAULT_MODEL}")


def test_without_any_model_it_tells_how_to_get_one(home):
    assert_refused(call("ask", "Hi"), 4, "is not here yet", "localpaged models pull")


def test_an_unknown_model_leaves_no_chat_behind(ready_home):
    call("ask", "--model", "nix", "Hi")
    assert_refused(call("ask", "--continue", "And then?", "--model", "nix"), 4)
    assert Store.open(paths.database_file()).chats() == []


def test_models_alone_tells_its_commands(home):
    done = call("models")
    assert done.code == 0
    assert "pull" in done.out


def test_the_model_may_come_from_the_environment(home, monkeypatch):
    monkeypatch.setenv("LOCALPAGED_MODEL", "nix")
    assert_refused(call("ask", "Hi"), 4, "'nix'")


def bad_models(folder: Path, default_model: Path) -> None:
    (folder / "folder").mkdir()
    (folder / "empty.gguf").touch()
    (folder / "page.gguf").write_text("<!DOCTYPE html><title>Not found</title>")
    with default_model.open("rb") as whole:
        (folder / "cut.gguf").write_bytes(whole.read(5_000_000))
    (folder / "noise.gguf").write_bytes(bytes(range(256)) * 16)


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("folder", "config.json"),
        ("empty.gguf", "empty"),
        ("page.gguf", "web page"),
        ("cut.gguf", "98,362,432 bytes"),
        ("noise.gguf", "not a GGUF file"),
        ("none.gguf", "no file or folder"),
    ],
)
def test_a_file_that_is_no_model_is_named(home, tmp_path_factory, default_model, name, part):
    folder = tmp_path_factory.mktemp("bad")  # what is told of a longer path is shortened
    bad_models(folder, default_model)
    path = str(folder / name)
    assert_refused(call("ask", "--model", path, "Hi"), 4, path, part)


def test_a_hostile_name_of_a_model_drives_no_terminal(home):
    done = call("ask", "--model", "x\x1b[31m\udcff\u202e", "Hi")
    assert_refused(done, 4, "x␛[31m<U+DCFF><U+202E>")


def test_a_base_model_has_no_chat_template(home, tmp_path):
    def without_template(writer):
        add_byte_level_tokenizer(writer, chat_template=None)

    path = save_tiny_gguf(tmp_path, "llama", tokenizer=without_template)
    assert_refused(call("ask", "--model", str(path), "Hi"), 4, path.stem, "base model")


def test_a_folder_of_models_that_cannot_be_read_is_told(home, monkeypatch):
    (home / "file").touch()
    monkeypatch.setenv(paths.HOME_VARIABLE, str(home / "file"))
    for command in (["ask", "Hi"], ["models", "list"]):
        assert_refused(call(*command), 4, str(paths.models_dir()), "Not a directory")
