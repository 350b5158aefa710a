"""The digest of a model's weights: other bytes are never taken for those that were read before."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from localpaged.models import weights_digest as module
from localpaged.models.tensor_files import SourceFile, source_file
from localpaged.models.weights_digest import files_state, weights_digest


@pytest.fixture(autouse=True)
def nothing_is_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRESH_S", -1.0)


@pytest.fixture
def files(tmp_path: Path) -> list[SourceFile]:
    for name in ("a.bin", "b.bin"):
        (tmp_path / name).write_bytes(name.encode() * 1_000)
    return [source_file(tmp_path / name) for name in ("a.bin", "b.bin")]


def test_untouched_files_are_read_once(files, monkeypatch):
    digest = weights_digest(files)
    monkeypatch.setattr(module.hashlib, "sha256", None)
    assert weights_digest(files) == digest


def test_one_byte_with_the_old_time_and_size_is_another_digest(files):
    before = weights_digest(files)
    path, status = files[0].path, files[0].path.stat()
    content = bytearray(path.read_bytes())
    content[500] ^= 1
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert weights_digest(files) != before


def test_a_file_in_anothers_place_is_another_digest_and_the_old_one_back_is_not(files, tmp_path):
    before = weights_digest(files)
    old = tmp_path / "old"
    files[0].path.rename(old)
    files[0].path.write_bytes(b"c.bin" * 1_000)
    os.utime(files[0].path, ns=(1, files[0].mtime_ns))
    assert weights_digest(files) != before
    old.replace(files[0].path)
    assert weights_digest(files) == before


def test_a_name_that_is_no_text_is_part_of_the_digest_like_any(files):
    before = weights_digest(files)
    renamed = files[0].path.rename(files[0].path.with_name("\udcff.bin"))
    files = [source_file(renamed), files[1]]
    assert weights_digest(files) == weights_digest(files) != before


def test_what_was_touched_just_now_is_not_remembered(files, monkeypatch):
    monkeypatch.setattr(module, "FRESH_S", 60.0)
    weights_digest(files)
    assert module._kept() == {}


def test_a_file_that_changes_while_it_is_read_has_no_digest(files):
    def touch(done: int, total: int) -> None:
        with files[1].path.open("ab") as file:
            file.write(b"x")

    with pytest.raises(OSError, match="change while they are read"):
        weights_digest(files, touch)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff", b"[" * 50_000])
def test_a_damaged_cache_is_made_again(files, content):
    digest = weights_digest(files)
    module._file().write_bytes(content)
    assert weights_digest(files) == digest
    assert list(module._kept().values()) == [digest]


def test_another_link_to_a_file_costs_reading_it_once_more_and_no_more(files, tmp_path):
    def link(done: int, total: int) -> None:
        if not (tmp_path / "link").exists():
            os.link(files[0].path, tmp_path / "link")

    assert weights_digest(files, link) == weights_digest(files)
    assert list(module._kept()) == [files_state(files)]


def test_only_so_many_are_kept(files, monkeypatch):
    monkeypatch.setattr(module, "MAX_KEPT", 2)
    for number in range(4):
        files[0].path.write_bytes(bytes([number]) * 100)
        weights_digest(files)
    assert len(module._kept()) == 2
    assert files_state(files) in module._kept()
