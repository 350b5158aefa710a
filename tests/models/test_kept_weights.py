"""Kept weights: what is read is what was written, and never that of another model or state."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
import time

import pytest
import torch
from click.testing import CliRunner

from localpaged import decoder_config, paths
from localpaged.cli.main import main
from localpaged.config import Settings
from localpaged.engine_factory import load_core
from localpaged.models import kept_weights
from localpaged.models.kept_weights import (
    TEMPORARY,
    THREAD,
    KeptWeights,
    forget_weights,
    kept_files,
    weights_root,
)
from localpaged.models.open_model import open_model
from localpaged.models.registry import add_entry
from testkit.decoders import needs_eight_bit
from testkit.engine_runs import make_request, run
from testkit.tiny_model import save_tiny_model

SHARED = torch.randn(16, 16)
STATE = {
    "embed.weight": torch.randn(320, 64).to(torch.bfloat16),
    "layers.0.qkv.eight_bit": torch.randint(-127, 128, (128, 64), dtype=torch.int8),
    "layers.0.qkv.eight_bit_scales": torch.rand(128),
    "layers.0.down.turn": SHARED,
    "layers.1.down.turn": SHARED,
}
NUM_BYTES = sum(tensor.nbytes for tensor in STATE.values())
MANY = 1 << 30


@pytest.fixture
def folder(tmp_path):
    return save_tiny_model(tmp_path / "tiny", "llama")


def kept(folder, *, budget_bytes=MANY, made_by=(kept_weights,)):
    return KeptWeights(open_model(folder), made_by=made_by, budget_bytes=budget_bytes)


def read(folder, **options):
    return kept(folder, **options).read(lambda done, total: None)


def write(folder, **options):
    kept(folder, **options).write(STATE)
    wait_until_written()


def wait_until_written():
    for thread in threading.enumerate():
        if thread.name == THREAD:
            thread.join()


def names():
    return [path.name for path, _ in kept_files()]


def test_what_is_read_is_what_was_written(folder):
    assert read(folder) is None
    write(folder)
    told = []
    found = kept(folder).read(lambda done, total: told.append((done, total)))
    assert found.keys() == STATE.keys()
    for name, tensor in STATE.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert told[-1][0] == NUM_BYTES <= told[-1][1]


def test_files_are_their_owners_alone(folder):
    write(folder)
    ((_, status),) = kept_files()
    assert stat.S_IMODE(status.st_mode) == 0o600
    assert stat.S_IMODE(weights_root().stat().st_mode) == 0o700


def test_a_model_that_was_touched_has_none_and_its_old_one_goes(folder):
    write(folder)
    before = names()
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    assert read(folder) is None
    write(folder)
    assert len(names()) == 1
    assert names() != before


def test_weights_that_change_while_they_are_rounded_are_not_kept(folder):
    begun = kept(folder)
    (folder / "model.safetensors").touch()
    begun.write(STATE)
    wait_until_written()
    assert names() == []


def test_another_way_of_making_them_has_files_of_its_own(folder):
    write(folder)
    assert read(folder, made_by=(kept_weights, decoder_config)) is None
    assert read(folder) is not None


@pytest.mark.parametrize("damage", ["cut", "emptied", "another file", "a link"])
def test_what_is_damaged_is_told_and_made_again(folder, caplog, damage):
    write(folder)
    ((path, status),) = kept_files()
    if damage == "a link":
        path.rename(path.with_name("elsewhere"))
        path.symlink_to(path.with_name("elsewhere").with_name("nowhere"))
    elif damage == "another file":
        path.write_bytes(b"<html>" * 100)
    else:
        os.truncate(path, status.st_size // 2 if damage == "cut" else 0)
    assert read(folder) is None
    assert damage == "a link" or "are made again" in caplog.text
    write(folder)
    assert read(folder) is not None


def test_the_least_recently_used_go_when_there_are_too_many(tmp_path):
    folders = [save_tiny_model(tmp_path / name, "llama") for name in "abc"]
    budget_bytes = 5 * NUM_BYTES // 2
    for folder in folders[:2]:
        write(folder, budget_bytes=budget_bytes)
    time.sleep(0.01)  # a clock's tick
    assert read(folders[0], budget_bytes=budget_bytes) is not None
    write(folders[2], budget_bytes=budget_bytes)
    there = [read(folder, budget_bytes=budget_bytes) is not None for folder in folders]
    assert there == [True, False, True]


def test_nothing_is_kept_without_room_for_it(folder, caplog, monkeypatch):
    write(folder, budget_bytes=0)
    write(folder, budget_bytes=NUM_BYTES - 1)
    assert "is rounded again" in caplog.text
    usage = shutil.disk_usage(folder)._replace(free=2 * NUM_BYTES)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    write(folder)
    assert names() == []


def test_a_disk_that_refuses_costs_only_the_speed(folder, caplog, monkeypatch):
    def refuse(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", refuse)
    write(folder)
    assert "could not be kept" in caplog.text
    assert list(weights_root().iterdir()) == []


def test_what_killed_programs_left_goes_and_what_others_write_stays(folder):
    paths.ensure_private_dir(weights_root())
    dead, living = (weights_root() / f"x.{pid}{TEMPORARY}" for pid in (2**22 + 1, os.getppid()))
    dead.touch()
    living.touch()
    write(folder)
    assert not dead.exists()
    assert living.exists()


def test_they_go_with_the_model(folder):
    add_entry("tiny", folder, origin=str(folder))
    write(folder)
    result = CliRunner().invoke(main, ["models", "rm", "--yes", "tiny"])
    assert result.exit_code == 0, result.output
    assert names() == []
    forget_weights(folder)  # twice is once


@needs_eight_bit
def test_a_second_start_rounds_nothing_and_answers_the_same(folder):
    settings = Settings(str(folder), context_tokens=256, weights_disk_bytes=MANY)
    stages, answers = [], []
    for _ in range(2):
        told = []
        core, _ = load_core(lambda: open_model(folder), settings, told.append)
        wait_until_written()
        stages.append({event.stage for event in told})
        asked = make_request("a", [3, 1, 4, 1, 5, 9], max_tokens=24)
        answers.append(run(core, [asked])["a"].token_ids)
    assert "Rounding weights to 8 bits" in stages[0]
    assert "Rounding weights to 8 bits" not in stages[1]
    assert answers[0] == answers[1]
