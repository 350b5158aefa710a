from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.models.registry import owned_path
from testkit.tiny_model import FAMILIES, save_tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable

# found before any test moves LOCALPAGED_HOME away
DEFAULT_MODEL_FILE = Path(os.environ.get("LOCALPAGED_TEST_MODEL", owned_path(DEFAULT_MODEL)))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALPAGED_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture(autouse=True, scope="session")
def one_torch_thread() -> None:
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def default_model_file() -> Path:
    if not DEFAULT_MODEL_FILE.is_file():
        pytest.skip(f"{DEFAULT_MODEL_FILE} is not there: `localpaged models pull`")
    return DEFAULT_MODEL_FILE


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the read-only folder of a family's tiny model, made once."""
    root = tmp_path_factory.mktemp("tiny")
    assert FAMILIES

    def folder(family: str) -> Path:
        if not (root / family).exists():
            save_tiny_model(root / family, family)
        return root / family

    return folder
