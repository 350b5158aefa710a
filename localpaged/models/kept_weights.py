"""Weights as the processor computes with them, kept in a file for the next start.

To round a model takes many times as long as to read what became of it. A file is named by all
that its content follows from, so a model that was touched, or another way of rounding, never meets
an old one. It is a safetensors file below `cache_dir()/weights`, safe to delete at any time.
"""

from __future__ import annotations

import hashlib
import itertools
import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from localpaged import paths
from localpaged.atomic_file import put_in_place
from localpaged.errors import BadModelFile, ModelError
from localpaged.models.safetensors_folder import ITEM_BYTES, safetensors_file_places
from localpaged.models.tensor_files import TensorFiles, source_file
from localpaged.models.weights_digest import files_state

if TYPE_CHECKING:
    import torch

    from localpaged.models.opened_model import OpenedModel
    from localpaged.models.tensor_layout import TensorPlace

    Layout = Mapping[str, tuple[tuple[int, ...], torch.dtype]]

log = logging.getLogger(__name__)

SUFFIX = ".safetensors"
TEMPORARY = ".part"
THREAD = "kept-weights"
PATIENCE_S = 1.0
FREE_SHARE = 4
"""A file may take one of so many parts of what is free of the disk."""

_OURS = re.compile(rf"[0-9a-f]{{32}}-[0-9a-f]{{32}}{re.escape(SUFFIX)}")
_PART = re.compile(rf"{_OURS.pattern}\.(\d{{1,9}})\.\d+{re.escape(TEMPORARY)}", re.ASCII)
"""With the id of the program that writes it."""

_numbers = itertools.count()
_writing: set[Path] = set()
"""What this program writes now; a thread of one model's may not be done when another is read."""


def weights_root() -> Path:
    """Return the folder of all kept weights; it need not exist."""
    return paths.cache_dir() / "weights"


def kept_files() -> list[tuple[Path, os.stat_result]]:
    """Return the files of all models, the least recently used first. Raises OSError.

    Whatever else is in the folder is somebody else's.
    """
    found = []
    for path in weights_root().glob(f"*{SUFFIX}"):
        if not _OURS.fullmatch(path.name):
            continue
        try:
            found.append((path, path.stat()))
        except FileNotFoundError:
            continue  # another program has deleted it
    return sorted(found, key=lambda file: file[1].st_mtime_ns)


def forget_weights(source: Path) -> None:
    """Delete what is kept of the model at `source`; what cannot be deleted is logged."""
    _remove(weights_root().glob(f"{_where(source)}-*"))


def wait_until_kept(tell: Callable[[], None]) -> None:
    """Wait until what was written is on the disk, before the program ends; any thread.

    `tell` is called when that takes more than `PATIENCE_S`. Who interrupts has nothing kept.
    """
    try:
        threads = [thread for thread in threading.enumerate() if thread.name == THREAD]
        end_s = time.monotonic() + PATIENCE_S
        for thread in threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            tell()
            for thread in threads:
                thread.join()
    except KeyboardInterrupt:
        log.info("Nobody waited until weights were kept")
        _remove(list(_writing))


class KeptWeights:
    """The file of one model's weights. Engine thread only.

    `made_by` are the modules whose code decides what the weights become; the files of all models
    together take up to `budget_bytes`. Weights are not kept where the model's files cannot be
    looked at, or are touched meanwhile.
    """

    def __init__(
        self, opened: OpenedModel, *, made_by: Sequence[ModuleType], budget_bytes: int
    ) -> None:
        self._opened = opened
        self._made_by = made_by
        self._budget_bytes = budget_bytes
        self._path = self._named() if budget_bytes else None

    def read(
        self, on_progress: Callable[[int, int], None], *, layout: Layout
    ) -> dict[str, torch.Tensor] | None:
        """Return what is kept; None where that is nothing, or nothing usable.

        `layout` is what it has to be, shapes and dtypes by name; `on_progress` is told bytes that
        were read and all there are.
        """
        if self._path is None:
            return None
        try:
            state = _read(self._path, layout, on_progress)
        except FileNotFoundError:
            return None
        except (OSError, ModelError) as error:
            log.warning("The weights in %s are made again: %s", self._path, error)
            _remove([self._path])
            return None
        try:
            os.utime(self._path)
        except OSError as error:  # a disk that is read-only is as good
            log.info("When %s was used is not noted: %s", self._path, error.strerror)
        return state

    def write(self, state: Mapping[str, torch.Tensor]) -> None:
        """Keep the weights; a full or read-only disk costs only the speed of the next start.

        What is written reaches the disk, and gets its name, on a thread of its own, which
        `wait_until_kept` waits for.
        """
        path = self._path
        if path is None or self._named() != path:
            return
        temporary = path.with_name(f"{path.name}.{os.getpid()}.{next(_numbers)}{TEMPORARY}")
        try:
            paths.ensure_private_dir(path.parent)
            _clear_abandoned(path.parent)
            if not self._has_room(sum(tensor.nbytes for tensor in state.values())):
                return
            _writing.add(temporary)
            _write(temporary, state)
        except OSError as error:
            _not_kept(path, error, [temporary])
            _writing.discard(temporary)
            return
        finish = (temporary, path, self._budget_bytes)
        threading.Thread(target=_finish, args=finish, name=THREAD, daemon=True).start()

    def _has_room(self, num_bytes: int) -> bool:
        most = min(self._budget_bytes, shutil.disk_usage(weights_root()).free // FREE_SHARE)
        if num_bytes > most:
            name = self._opened.name
            log.warning("%s is rounded again: %d bytes, room for %d", name, num_bytes, most)
        return num_bytes <= most

    def _named(self) -> Path | None:
        """Return the file for the model as it is now; None when it cannot be looked at."""
        import torch

        opened = self._opened
        # another release, or another processor, may round the last bit otherwise
        machine = f"{torch.__version__} {torch.backends.cpu.get_cpu_capability()}"
        try:
            digest = hashlib.blake2b(files_state(opened.files).encode(), digest_size=16)
            for module in self._made_by:
                assert module.__file__ is not None
                digest.update(Path(module.__file__).read_bytes())
        except OSError as error:
            log.warning("The weights of %s are not kept: %s", opened.name, error)
            return None
        digest.update(f"{machine} {opened.config} {opened.has_interleaved_rope}".encode())
        return weights_root() / f"{_where(opened.source)}-{digest.hexdigest()}{SUFFIX}"


def _where(source: Path) -> str:
    return hashlib.blake2b(os.fsencode(source.resolve()), digest_size=16).hexdigest()


def _read(
    path: Path, layout: Layout, on_progress: Callable[[int, int], None]
) -> dict[str, torch.Tensor]:
    """Return a file's tensors. Raises OSError, and ModelError where they are not what they were."""
    import torch

    dtypes = {
        "F32": torch.float32,
        "F16": torch.float16,
        "BF16": torch.bfloat16,
        "I8": torch.int8,
        "U8": torch.uint8,
    }
    places = safetensors_file_places(path, dtypes=tuple(ITEM_BYTES))
    file = source_file(path)
    if {name: (place.shape, dtypes[place.type]) for name, place in places.items()} != layout:
        raise BadModelFile("its tensors are not those of the model")
    _check_is_full(places.values(), file.num_bytes)
    state: dict[str, torch.Tensor] = {}
    done = 0
    with closing(TensorFiles((file,))) as files:
        for name, place in sorted(places.items(), key=lambda item: item[1].offset):
            state[name] = torch.empty(place.shape, dtype=dtypes[place.type])
            files.read(place, 0, memoryview(state[name].view(-1).view(torch.uint8).numpy()))
            done += place.num_bytes
            on_progress(done, file.num_bytes)
    return state


def _check_is_full(places: Iterable[TensorPlace], num_bytes: int) -> None:
    """Raise BadModelFile where tensors share bytes, or bytes are none's: it was not written so."""
    end = None
    for place in sorted(places, key=lambda place: place.offset):
        if end not in (None, place.offset):
            raise BadModelFile("its tensors do not lie one behind the other")
        end = place.offset + place.num_bytes
    if end != num_bytes:
        raise BadModelFile("something is behind its last tensor")


def _write(path: Path, state: Mapping[str, torch.Tensor]) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    seen: set[int] = set()
    tensors = {}
    for name, tensor in state.items():
        # the format has no two names for one tensor; those that have them are small
        tensors[name] = tensor.clone() if tensor.data_ptr() in seen else tensor.contiguous()
        seen.add(tensor.data_ptr())
    # made before there is anything in it: it is its owner's alone
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, paths.PRIVATE_FILE_MODE))
    try:
        save_file(tensors, path)
    except SafetensorError as error:  # what the system refused, in its words
        raise OSError(None, str(error)) from error


def _finish(temporary: Path, path: Path, budget_bytes: int) -> None:
    """Give a file its name when it is on the disk, and take others away that are too many."""
    try:
        _put_on_disk(temporary, path)
        own = path.name.partition("-")[0]
        _remove(other for other in path.parent.glob(f"{own}-*{SUFFIX}") if other != path)
        files = kept_files()
    except OSError as error:
        _not_kept(path, error, [temporary])
        return
    finally:
        _writing.discard(temporary)
    total = sum(status.st_size for _, status in files)
    for other, status in files:
        if total > budget_bytes and other != path:
            _remove([other])
            total -= status.st_size


def _put_on_disk(temporary: Path, path: Path) -> None:
    descriptor = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    put_in_place(temporary, path)


def _clear_abandoned(folder: Path) -> None:
    """Delete what programs left behind that were killed while they wrote."""
    import psutil

    for part in folder.glob(f"*{TEMPORARY}"):
        named = _PART.fullmatch(part.name)
        if named is None or part in _writing:
            continue
        # one of our own number that is not being written is of a program that had it before
        if (pid := int(named[1])) == os.getpid() or not psutil.pid_exists(pid):
            _remove([part])


def _not_kept(path: Path, error: OSError, parts: Iterable[Path]) -> None:
    log.warning("The weights could not be kept in %s: %s", path, error)
    _remove(parts)


def _remove(files: Iterable[Path]) -> None:
    for path in files:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be deleted: %s", path, error.strerror)
