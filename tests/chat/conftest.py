"""Chats over a model that answers from a script, or over a tiny one."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.cached_chats import Chatting
from testkit.tiny_model import save_tiny_model


@pytest.fixture
def chatting(database_path: Path) -> Chatting:
    """One chat whose prompts are looked at."""
    return Chatting(database_path).begin()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model with random weights."""
    import torch

    torch.set_num_threads(1)
    return save_tiny_model(tmp_path_factory.mktemp("tiny") / "llama", "llama")
