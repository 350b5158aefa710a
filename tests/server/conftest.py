from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.http_server import Served, scripted, tiny
from testkit.tiny_model import save_tiny_model


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import torch

    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("tiny") / "llama"
    # what a prompt with tools needs where a token is hardly more than a character
    return save_tiny_model(folder, "llama", max_position_embeddings=2_048)


@pytest.fixture(scope="module")
def tiny_served(tiny_folder: Path) -> Iterator[tuple[Served, Any]]:
    """A server over a real engine with a tiny random model, and the engine's core."""
    with tiny(tiny_folder) as served:
        yield served


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server over a scripted engine that says "Hello, world."."""
    with scripted() as served:
        yield served
