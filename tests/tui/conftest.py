"""What tests of the screen share."""

from __future__ import annotations

import pytest

from localpaged.tui import clipboard


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that go into the clipboard."""
    texts: list[str] = []

    def copy(app: object, text: str) -> bool:
        texts.append(text)
        return True

    monkeypatch.setattr(clipboard, "copy", copy)
    return texts
