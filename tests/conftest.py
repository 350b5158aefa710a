"""Every test has a home of its own; nothing a test does reaches the user's chats or models."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import settings

from localpaged import paths
from localpaged.thread_waiting import wait_briefly

if TYPE_CHECKING:
    from localpaged.store.store import Store

# Before any test imports torch, which reads both once. Processes that test side by side have a
# thread each: two teams of threads on the same cores wait for each other.
wait_briefly()
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# How long an example takes tells what else the machine does.
settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")

# The size of pytest's own terminal, which readline exports, is not that of a test's.
for name in ("COLUMNS", "LINES"):
    os.environ.pop(name, None)

# Before anything imports Triton, which reads it once: kernels run on the CPU. With 0, on a GPU.
os.environ.setdefault("TRITON_INTERPRET", "1")

MODEL_NAME = "smollm2-135m-instruct"

MOST_WORKERS = 8
WORKER_BYTES = 2 << 30
"""Memory of a process that tests: torch, the default model twice, what is dropped late."""

# Before anything replaces it: where `make setup` put the default model.
_INSTALLED_MODEL = paths.models_dir() / f"{MODEL_NAME}.gguf"


@pytest.fixture(autouse=True)
def home(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> Path:
    """An empty LOCALPAGED_HOME."""
    if "default_model" in request.fixturenames:
        # its weights take a fifth of a gigabyte, and this home has no next start
        monkeypatch.setenv("LOCALPAGED_WEIGHTS_DISK", "0")
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv(paths.HOME_VARIABLE, str(folder))
    monkeypatch.delenv("LOCALPAGED_MODEL", raising=False)
    for desktop in ("DISPLAY", "WAYLAND_DISPLAY"):  # whose clipboard is not the tests'
        monkeypatch.delenv(desktop, raising=False)
    return folder


@pytest.fixture
def listed_home(home: Path) -> Path:
    """A home that has the default model by name alone: for answers from a script."""
    paths.ensure_private_dir(paths.models_dir())
    (paths.models_dir() / f"{MODEL_NAME}.gguf").touch()
    return home


@pytest.fixture
def database_path(home: Path) -> Path:
    """Where the history of this test is; nothing is there yet."""
    return paths.database_file()


@pytest.fixture
def store(database_path: Path) -> Iterator[Store]:
    """An empty history."""
    from localpaged.store.store import Store

    store = Store.open(database_path)
    yield store
    store.close()


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The default model's file; tests that need it fail without it, they are not skipped."""
    if not _INSTALLED_MODEL.is_file():
        pytest.fail(
            f"{_INSTALLED_MODEL} is missing: run `make setup` (or `localpaged models pull`)"
        )
    return _INSTALLED_MODEL


@pytest.fixture
def home_with_model(home: Path, default_model: Path) -> Path:
    """A home in which the default model is pulled."""
    models = paths.ensure_private_dir(paths.models_dir())
    try:
        os.link(default_model, models / default_model.name)
    except OSError:
        shutil.copy(default_model, models / default_model.name)
    return home


def pytest_report_header() -> list[str]:
    """Tell the versions that decide results."""
    return [", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "textual"))]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Three processes for two processors (`-n auto`): a third of a test's time is waiting.

    None where it would have less than WORKER_BYTES of memory.
    """
    num_processors = len(os.sched_getaffinity(0))
    fitting = psutil.virtual_memory().available // WORKER_BYTES
    return max(1, min(num_processors * 3 // 2, fitting, MOST_WORKERS))
