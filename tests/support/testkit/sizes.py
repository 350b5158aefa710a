"""The two sizes of terminals that every screen is tried in."""

from __future__ import annotations

import pytest

from testkit.screens import LARGE, SMALL

SIZES = pytest.mark.parametrize("size", [SMALL, LARGE], ids=["80x24", "140x40"])
