"""What the script runs on: card, driver, versions, commit, and the card's clocks while it runs."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGES = ("torch", "triton", "transformers", "localpaged")
CLOCKS = (
    "clocks.sm",
    "clocks.mem",
    "clocks.max.sm",
    "temperature.gpu",
    "power.draw",
    "clocks_throttle_reasons.active",
)
TOOL_S = 5


def software() -> dict[str, Any]:
    """Return versions and commit; nothing of them needs a GPU."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "processors": os.cpu_count(),
        **{name: _version(name) for name in PACKAGES},
        **commit(),
    }


def commit() -> dict[str, Any]:
    """Return the commit that was run, and whether files of it had been changed."""
    name = _told("git", "-C", str(ROOT), "rev-parse", "HEAD")
    if name is None:
        return {"commit": None, "has_changes": None}
    changes = _told("git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no")
    return {"commit": name, "has_changes": bool(changes)}


def driver() -> str | None:
    """Return the version of NVIDIA's driver, or None where nvidia-smi does not tell."""
    told = _told("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return told.splitlines()[0] if told else None


def clocks() -> dict[str, Any]:
    """Return the first card's clocks, temperature, power and what slows it, as it tells them."""
    told = _told("nvidia-smi", f"--query-gpu={','.join(CLOCKS)}", "--format=csv,noheader")
    if not told:
        return {}
    return dict(
        zip(CLOCKS, (part.strip() for part in told.splitlines()[0].split(",")), strict=False)
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor())


def _told(*command: str) -> str | None:
    """Return what a tool prints, None where it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
