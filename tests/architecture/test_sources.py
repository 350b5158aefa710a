"""Rules that every source file keeps."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("localpaged", "kernels", "tests", "benchmarks", "scripts")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
MAX_LINES = 400


def test_there_are_sources():
    assert len(SOURCES) > 50


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_is_short_and_named_after_its_job(path):
    text = path.read_text()
    assert len(text.splitlines()) <= MAX_LINES
    assert path.stem not in {"utils", "helpers", "misc", "common"}
    assert not re.search(r"\b(TODO|FIXME|XXX)\b", text) or path == Path(__file__)


def test_kernels_has_no_init():
    assert not (ROOT / "kernels" / "__init__.py").exists()
