"""Homes and engines for commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from localpaged import wiring
from testkit.commands import ScriptedRuns
from testkit.scripted_engine import Answer


@pytest.fixture(scope="session")
def warm_home(default_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What homes with the default model share: the file, and what opening it found out."""
    folder = tmp_path_factory.mktemp("warm")
    models = folder / "models"
    models.mkdir(mode=0o700)
    (models / default_model.name).symlink_to(default_model)
    (folder / "cache").mkdir(mode=0o700)
    return folder


@pytest.fixture
def ready_home(home: Path, warm_home: Path) -> Path:
    """A home without chats and with the default model, which opens fast after the first time."""
    (home / "data").mkdir(mode=0o700)
    (home / "data" / "models").symlink_to(warm_home / "models")
    (home / "cache").symlink_to(warm_home / "cache")
    return home


@pytest.fixture
def answer_with(listed_home: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ScriptedRuns]:
    """Let `ask` in this process be answered by a script."""

    def answer_with(*script: Answer | Sequence[str], **options: Any) -> ScriptedRuns:
        runs = ScriptedRuns(script, **options)
        monkeypatch.setattr(wiring, "open_service", runs.open_service)
        return runs

    return answer_with
