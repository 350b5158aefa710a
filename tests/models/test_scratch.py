"""Scratch folders go with their owner, never with another's work."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from localpaged.models.scratch import PREFIX, remove_abandoned, scratch_folder

if TYPE_CHECKING:
    from pathlib import Path


def test_a_folder_is_there_for_its_block(tmp_path: Path):
    with scratch_folder(tmp_path) as scratch:
        (scratch.folder / "work").write_text("x")
        assert scratch.folder.parent == tmp_path

    assert list(tmp_path.iterdir()) == []


def test_a_folder_goes_when_its_work_fails(tmp_path: Path):
    with pytest.raises(ValueError, match="broken"), scratch_folder(tmp_path):
        raise ValueError("broken")

    assert list(tmp_path.iterdir()) == []


def test_anothers_work_is_left_alone(tmp_path: Path):
    with scratch_folder(tmp_path) as first, scratch_folder(tmp_path) as second:
        remove_abandoned(tmp_path)

        assert first.folder.exists()
        assert second.folder.exists()


def test_an_abandoned_folder_is_removed(tmp_path: Path):
    abandoned = tmp_path / f"{PREFIX}abandoned"
    abandoned.mkdir()
    (abandoned / "lock").touch()
    (abandoned / "half.gguf").write_bytes(b"GGUF")

    remove_abandoned(tmp_path)

    assert not abandoned.exists()


def test_a_child_that_outlives_its_parent_keeps_the_folder(tmp_path: Path):
    with scratch_folder(tmp_path) as scratch:
        heir = os.dup(scratch.lock_descriptor)
        lock = scratch.folder / "lock"
        saved = tmp_path / f"{PREFIX}orphan"
        saved.mkdir()
        lock.rename(saved / "lock")

    remove_abandoned(tmp_path)
    assert saved.exists()

    os.close(heir)
    remove_abandoned(tmp_path)
    assert not saved.exists()


@pytest.mark.parametrize(("age_s", "stays"), [(0, True), (7_200, False)])
def test_a_folder_that_is_being_made_is_left_alone_for_a_while(
    tmp_path: Path, age_s: int, stays: bool
):
    unfinished = tmp_path / f"{PREFIX}unfinished"
    unfinished.mkdir()
    then = time.time() - age_s
    os.utime(unfinished, (then, then))

    remove_abandoned(tmp_path)

    assert unfinished.exists() == stays
