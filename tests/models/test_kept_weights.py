"""Kept weights: what is read is what was written, and never that of another model or state."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import threading
import time

import pytest
import torch
from click.testing import CliRunner
from safetensors.torch import save_file

from localpaged import decoder_config, paths
from localpaged.cli import main as cli_main
from localpaged.cli.main import main
from localpaged.config import Settings
from localpaged.engine.eight_bit import to_eight_bit
from localpaged.engine.rounded_layout import rounded_layout
from localpaged.engine_factory import load_core
from localpaged.models import kept_weights
from localpaged.models.kept_weights import (
    TEMPORARY,
    THREAD,
    KeptWeights,
    forget_weights,
    kept_files,
    wait_until_kept,
    weights_root,
)
from localpaged.models.open_model import open_model
from localpaged.models.registry import add_entry
from localpaged.models.weights import load_state
from testkit.decoders import needs_eight_bit
from testkit.engine_runs import make_request, run
from testkit.gguf_files import save_tiny_gguf
from testkit.tiny_model import FAMILIES, MORE_FAMILIES, save_tiny_model

SHARED = torch.randn(16, 16)
STATE = {
    "embed.weight": torch.randn(320, 64).to(torch.bfloat16),
    "layers.0.qkv.eight_bit": torch.randint(-127, 128, (128, 64), dtype=torch.int8),
    "layers.0.qkv.eight_bit_scales": torch.rand(128),
    "layers.0.down.turn": SHARED,
    "layers.1.down.turn": SHARED,
}
NUM_BYTES = sum(tensor.nbytes for tensor in STATE.values())
LAYOUT = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in STATE.items()}
MANY = 1 << 30


@pytest.fixture
def folder(tmp_path):
    return save_tiny_model(tmp_path / "tiny", "llama")


def kept(folder, *, budget_bytes=MANY, made_by=(kept_weights,)):
    return KeptWeights(open_model(folder), made_by=made_by, budget_bytes=budget_bytes)


def read(folder, **options):
    return kept(folder, **options).read(lambda done, total: None, layout=LAYOUT)


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
    found = kept(folder).read(lambda done, total: told.append((done, total)), layout=LAYOUT)
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
    name = f"{'a' * 32}-{'b' * 32}.safetensors"
    pids = (2**22 + 1, os.getpid(), os.getppid(), 10**30)
    parts = [weights_root() / f"{name}.{pid}.0{TEMPORARY}" for pid in pids]
    for part in parts:
        part.touch()
    write(folder)
    assert [part.exists() for part in parts] == [False, False, True, True]


def test_what_is_somebody_elses_in_the_folder_stays(tmp_path, folder):
    write(folder)
    others = [weights_root() / name for name in ("mine.safetensors", "film.part", "x.1.part")]
    for other in others:
        other.write_bytes(b"mine")
        os.utime(other, (0, 0))
    second = save_tiny_model(tmp_path / "second", "llama")
    write(second, budget_bytes=NUM_BYTES + 4_096)
    assert len(names()) == 1
    assert [other.read_bytes() for other in others] == [b"mine"] * 3


def test_the_file_of_one_model_is_finished_while_another_is_written(tmp_path, monkeypatch):
    folders = [save_tiny_model(tmp_path / name, "llama") for name in "ab"]
    may_go_on, fsync = threading.Event(), os.fsync

    def wait(descriptor):
        assert may_go_on.wait(10)
        fsync(descriptor)

    all_kept = [kept(folder) for folder in (*folders, folders[0])]  # which is loaded twice
    monkeypatch.setattr(os, "fsync", wait)
    for each in all_kept:
        each.write(STATE)
    may_go_on.set()
    wait_until_written()
    assert len(names()) == 2
    assert not list(weights_root().glob(f"*{TEMPORARY}"))


@pytest.fixture
def held(monkeypatch):
    """A disk that is done with nothing until this is set."""
    may_go_on, fsync = threading.Event(), os.fsync

    def wait(descriptor):
        if threading.current_thread().name == THREAD:
            assert may_go_on.wait(10)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", wait)
    monkeypatch.setattr(kept_weights, "PATIENCE_S", 0.01)
    yield may_go_on
    may_go_on.set()
    wait_until_written()


def test_a_program_waits_for_its_files_before_it_ends(folder, held):
    kept(folder).write(STATE)
    told = []

    def tell():
        told.append(names())
        held.set()

    wait_until_kept(tell)
    assert told == [[]]
    assert len(names()) == 1
    wait_until_kept(lambda: pytest.fail("nothing is being written"))


def test_who_does_not_wait_leaves_nothing_behind(folder, held):
    kept(folder).write(STATE)

    def interrupt():
        raise KeyboardInterrupt

    wait_until_kept(interrupt)
    held.set()
    wait_until_written()
    assert list(weights_root().iterdir()) == []


@needs_eight_bit
@pytest.mark.parametrize("is_waited_for", [True, False])
def test_a_command_ends_when_weights_are_kept_or_at_once(folder, held, monkeypatch, is_waited_for):
    def tell(text, **options):
        if "for the next start" not in str(text):
            return
        held.set()
        if not is_waited_for:
            raise KeyboardInterrupt

    monkeypatch.setattr(cli_main.click, "echo", tell)
    asked = ["ask", "-m", str(folder), "--max-tokens", "2", "--weights-disk", "1G", "hello"]
    result = CliRunner().invoke(main, asked)
    assert result.exit_code == 0, result.output
    wait_until_written()
    assert len(names()) == is_waited_for


def test_a_disk_that_became_read_only_is_read(folder, monkeypatch):
    write(folder)

    def refuse(path):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", refuse)
    assert read(folder) is not None
    assert len(names()) == 1


def foreign(change):
    """Return tensors that are not what was to be kept."""
    state = dict(STATE)
    name = "layers.0.qkv.eight_bit_scales"
    if change == "one is missing":
        del state[name]
    elif change == "one too many":
        state["more"] = torch.zeros(1)
    elif change == "another name":
        state["layers.9.qkv.eight_bit_scales"] = state.pop(name)
    elif change == "another shape":
        state[name] = torch.rand(64)
    elif change == "another dtype":
        state[name] = state[name].to(torch.bfloat16)
    elif change == "no numbers":
        state[name] = torch.zeros(0)
    return {name: tensor.clone() for name, tensor in state.items()}


@pytest.mark.parametrize(
    "change",
    ["one is missing", "one too many", "another name", "another shape", "another dtype",
     "no numbers", "shared bytes", "a longer file", "a long header"],
)  # fmt: skip
def test_tensors_that_are_not_the_models_are_made_again(folder, caplog, change):
    write(folder)
    ((path, _),) = kept_files()
    save_file(foreign(change), path)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    if change == "shared bytes":
        first, second = header["layers.0.down.turn"], header["layers.1.down.turn"]
        second["data_offsets"] = first["data_offsets"]
    if change == "a long header":
        length = 2**62
    raw = json.dumps(header).encode()
    if change == "shared bytes":
        length = len(raw)
        path.write_bytes(length.to_bytes(8, "little") + raw + content[-NUM_BYTES:])
    elif change == "a long header":
        path.write_bytes(length.to_bytes(8, "little") + content[8:])
    elif change == "a longer file":
        path.write_bytes(content + b"more")
    assert read(folder) is None
    assert "are made again" in caplog.text
    write(folder)
    assert read(folder) is not None


@pytest.mark.parametrize("family", [*FAMILIES, *MORE_FAMILIES])
def test_what_a_file_must_have_is_what_rounding_makes(tmp_path, family):
    opened = open_model(save_tiny_model(tmp_path / family, family))
    if not opened.config.has_pre_norms or opened.config.has_wide_qk_norm:
        return  # it has no 8 bits on a processor
    made = to_eight_bit(opened.config, load_state(opened, dtype=torch.bfloat16))
    layout = rounded_layout(opened.config, torch.bfloat16, has_rope_factors=False)
    assert {name: (tuple(each.shape), each.dtype) for name, each in made.items()} == layout


def test_factors_of_rotations_are_kept_as_they_are(tmp_path):
    opened = open_model(save_tiny_gguf(tmp_path, "llama3-rope"))
    made = to_eight_bit(opened.config, load_state(opened, dtype=torch.bfloat16))
    layout = rounded_layout(opened.config, torch.bfloat16, has_rope_factors=True)
    assert {name: (tuple(each.shape), each.dtype) for name, each in made.items()} == layout


def test_they_go_with_the_model(folder):
    add_entry("tiny", folder, origin=str(folder))
    write(folder)
    result = CliRunner().invoke(main, ["models", "rm", "--yes", "tiny"])
    assert result.exit_code == 0, result.output
    assert names() == []
    forget_weights(folder)  # twice is once


@needs_eight_bit
@pytest.mark.parametrize(("dtype", "bits"), [("auto", 8), ("int4", 4)])
def test_a_second_start_rounds_nothing_and_answers_the_same(folder, dtype, bits):
    settings = Settings(str(folder), context_tokens=256, weights_disk_bytes=MANY, dtype=dtype)
    stages, answers = [], []
    for _ in range(2):
        told = []
        core, _ = load_core(lambda: open_model(folder), settings, told.append)
        wait_until_written()
        stages.append({event.stage for event in told})
        asked = make_request("a", [3, 1, 4, 1, 5, 9], max_tokens=24)
        answers.append(run(core, [asked])["a"].token_ids)
    assert f"Rounding weights to {bits} bits" in stages[0]
    assert f"Rounding weights to {bits} bits" not in stages[1]
    assert answers[0] == answers[1]
