"""Importing stays light, and the layers are what pyproject.toml says."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def modules_after(statement):
    code = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        (
            "import localpaged.cli.main",
            {"torch", "textual", "transformers", "numpy", "sqlite_utils"},
        ),
        (
            # what `--help` loads
            "from localpaged.cli.main import COMMANDS, _load; list(map(_load, COMMANDS))",
            {"torch", "textual", "hashlib", "sqlite3", "logging", "localpaged.kv_files"},
        ),
        ("import localpaged.cli.paths", {"localpaged.config", "localpaged.kv_files"}),
        (
            "import localpaged.tui.app",
            # the first picture waits for nothing of these
            {"torch", "transformers", "numpy", "sqlite_utils", "jinja2", "markdown_it", "pygments"}
            | {"localpaged.engine.core", "localpaged.engine.events", "localpaged.chat.events"},
        ),
        ("import localpaged.engine.scheduler, localpaged.engine.core", {"torch", "numpy"}),
        ("import localpaged.models.open_model", {"torch", "transformers"}),
        ("import localpaged.wiring", {"torch", "transformers", "textual", "starlette", "uvicorn"}),
        (
            "import localpaged.cli.serve, localpaged.cli.chat",
            {"starlette", "uvicorn", "prometheus_client", "localpaged.server"},
        ),
        ("import localpaged.server.listener", {"torch", "transformers", "numpy", "textual"}),
        ("import localpaged.tui.stats.run", {"torch", "transformers", "numpy", "sqlite_utils"}),
        ("import localpaged_kernels", {"triton", "torch"}),
    ],
)
def test_an_import_loads_nothing_heavy(statement, absent):
    assert not modules_after(statement) & absent


def test_help_is_instant():
    def seconds():
        started_s = time.perf_counter()
        subprocess.run(
            [sys.executable, "-m", "localpaged", "--help"], capture_output=True, check=True
        )
        return time.perf_counter() - started_s

    # The best of several: other programs on the machine are not our start-up time.
    assert any(seconds() < 0.3 for _ in range(20))


def test_importing_creates_nothing(home):
    modules_after("import localpaged.cli.main, localpaged.wiring, localpaged.tui.app")
    assert list(home.iterdir()) == []


def test_layers_hold():
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout


def test_a_folder_named_kernels_is_no_package():
    code = (
        "import importlib.util as u; spec = u.find_spec('kernels');"
        "print(spec is None or spec.origin is None)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "True"
