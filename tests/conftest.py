"""Every test has a home of its own; nothing a test does reaches the user's chats or models."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.thread_waiting import wait_briefly

# Before any test imports torch, which reads it once.
wait_briefly()

# Before anything imports Triton, which reads it once: kernels run on the CPU. With 0, on a GPU.
os.environ.setdefault("TRITON_INTERPRET", "1")

MODEL_NAME = "smollm2-135m-instruct"

# Before anything replaces it: where `make setup` put the default model.
_INSTALLED_MODEL = paths.models_dir() / f"{MODEL_NAME}.gguf"


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty LOCALPAGED_HOME."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv(paths.HOME_VARIABLE, str(folder))
    monkeypatch.delenv("LOCALPAGED_MODEL", raising=False)
    return folder


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
    import textual
    import torch
    import transformers

    return [
        f"torch {torch.__version__}, transformers {transformers.__version__}, "
        f"textual {textual.__version__}"
    ]
