from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localpaged.store.store import Store


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOCALPAGED_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def database_path(home: Path) -> Path:
    return home / "data" / "chats.db"


@pytest.fixture
def store(database_path: Path) -> Iterator[Store]:
    store = Store.open(database_path)
    yield store
    store.close()
