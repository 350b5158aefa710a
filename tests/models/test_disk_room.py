"""A disk that takes nothing and names that are too long: one sentence, with numbers and a place."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.errors import ConfigError, ModelError, ModelNotFound
from localpaged.models import disk_room, registry
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.models.pull import pull_model
from localpaged.models.pull_hub import fetch_from_hub
from localpaged.models.registry import check_name, not_found
from testkit.gguf_files import save_tiny_gguf


def ignore(stage: str, done: int, total: int) -> None:
    pass


def test_a_disk_without_room_is_refused_before_anything_is_fetched(monkeypatch):
    usage = shutil.disk_usage("/")._replace(free=12_000_000)
    monkeypatch.setattr(disk_room.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(ModelError, match=r"has 12 MB of room; 191 MB are needed") as raised:
        pull_model(DEFAULT_MODEL, on_progress=ignore)
    assert str(paths.models_dir()) in raised.value.message
    assert "LOCALPAGED_HOME" in raised.value.hint


@pytest.mark.parametrize(
    ("number", "wish"),
    [(errno.ENOSPC, "Make room"), (errno.EROFS, "may write"), (errno.EACCES, "may write")],
)
def test_an_entry_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, monkeypatch, number: int, wish: str
):
    def refuse(path: Path, content: bytes) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(registry, "write_atomically", refuse)
    with pytest.raises(ModelError, match=os.strerror(number)) as raised:
        pull_model(str(save_tiny_gguf(tmp_path, "llama")), on_progress=ignore)
    assert wish in raised.value.hint
    assert registry.list_entries() == []


def test_names_that_are_too_long_are_told_by_their_length():
    with pytest.raises(ConfigError, match="300 characters is too long"):
        check_name("a" * 300)
    with pytest.raises(ConfigError, match=r"at most 96 characters, not 401"):
        fetch_from_hub(f"{'a' * 200}/{'b' * 200}")
    error = not_found("a" * 100_000, ["some-model"])
    assert isinstance(error, ModelNotFound)
    assert len(error.message) < 200
