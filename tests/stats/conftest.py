"""A home in which the default model is by name alone: answers come from a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged import paths
from localpaged.models.catalogue import DEFAULT_MODEL


@pytest.fixture
def listed_model(home: Path) -> Path:
    """The home."""
    paths.ensure_private_dir(paths.models_dir())
    (paths.models_dir() / f"{DEFAULT_MODEL}.gguf").touch()
    return home
