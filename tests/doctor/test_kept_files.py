"""What earlier runs left on the disk is counted, and nothing of it is changed."""

from __future__ import annotations

import os

from localpaged.kv_files.folder import kv_root
from localpaged.models.kept_weights import weights_root


def test_kv_files_are_counted_and_none_is_cleared_away(home, look):
    folder = kv_root() / "x"
    folder.mkdir(parents=True)
    (folder / "a.safetensors").write_bytes(b"x" * 100)
    (folder / "1-2.part").write_bytes(b"x" * 50)
    os.utime(folder / "1-2.part", (0, 0))
    fact = look()["KV files"]
    assert (fact.numbers["bytes"], fact.numbers["files"]) == (100, 1)
    assert "1 half written" in fact.value
    assert (folder / "1-2.part").exists()


def test_kept_weights_are_counted(home, look):
    weights_root().mkdir(parents=True)
    name = f"{'a' * 32}-{'b' * 32}.safetensors"
    (weights_root() / name).write_bytes(b"x" * 100)
    (weights_root() / f"{name}.1.0.part").write_bytes(b"x" * 50)
    (weights_root() / "mine.safetensors").write_bytes(b"x" * 25)
    fact = look()["kept weights"]
    assert (fact.numbers["bytes"], fact.numbers["files"]) == (100, 1)
    assert fact.numbers["budget_bytes"] == 16 << 30
