"""What the system itself says of NVIDIA GPUs, whatever torch was built for."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

DRIVER_FILE = Path("/proc/driver/nvidia/version")
PCI_DEVICES = Path("/sys/bus/pci/devices")
ANSWER_S = 1.5
"""How long nvidia-smi may take: with a broken driver it can wait for ever."""

_DYING_S = 0.2
_VENDOR = "0x10de"
_DISPLAY = "0x03"
_MIB = 2**20
_VERSION = re.compile(r"\b(\d{3,4}\.\d+(?:\.\d+)?)\b")
_QUERY = "index,name,driver_version,compute_cap,memory.total,memory.free"


@dataclass(frozen=True, slots=True)
class SystemGpu:
    """A GPU as its driver tells it; bytes None where it does not."""

    name: str
    capability: tuple[int, int] | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Nvidia:
    """The driver's version, empty without one, its GPUs, and how many cards are plugged in.

    `trouble` is why nvidia-smi could not be asked.
    """

    driver: str = ""
    gpus: tuple[SystemGpu, ...] = ()
    num_cards: int = 0
    trouble: str = ""

    @property
    def is_there(self) -> bool:
        """Whether there is any sign of an NVIDIA GPU."""
        return bool(self.driver or self.gpus or self.num_cards)


def read_nvidia() -> Nvidia:
    """Look for a GPU and its driver; nothing is loaded into this process."""
    driver = _driver_of_kernel()
    num_cards = _count_cards()
    command = shutil.which("nvidia-smi")
    if command is None:
        return Nvidia(driver, (), num_cards)
    try:
        rows = _asked(command)
    except OSError as error:
        return Nvidia(driver, (), num_cards, f"nvidia-smi: {error.strerror or error}")
    except subprocess.TimeoutExpired:
        return Nvidia(driver, (), num_cards, f"nvidia-smi did not answer in {ANSWER_S} s")
    except ValueError as error:
        return Nvidia(driver, (), num_cards, f"nvidia-smi: {error}")
    versions = [row[2] for row in rows if _VERSION.fullmatch(row[2])]
    return Nvidia(driver or next(iter(versions), ""), tuple(map(_gpu, rows)), num_cards)


def _driver_of_kernel() -> str:
    try:
        found = _VERSION.search(DRIVER_FILE.read_text(errors="replace"))
    except OSError:
        return ""  # no driver, which is what was asked
    return found[1] if found else ""


def _count_cards() -> int:
    """Cards on the PCI bus; under WSL there is none to be seen."""
    count = 0
    for device in PCI_DEVICES.glob("*"):
        try:
            vendor = (device / "vendor").read_text().strip()
            kind = (device / "class").read_text().strip()
        except OSError:
            continue
        count += vendor == _VENDOR and kind.startswith(_DISPLAY)
    return count


def _asked(command: str) -> Sequence[list[str]]:
    """Return the fields of each GPU. Raises OSError, TimeoutExpired, and ValueError with why."""
    process = subprocess.Popen(
        [command, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        answer, _ = process.communicate(timeout=ANSWER_S)
    except subprocess.TimeoutExpired:
        process.kill()
        if process.stdout is not None:
            process.stdout.close()
        with suppress(subprocess.TimeoutExpired):
            # one that hangs in a broken driver cannot even be killed, and is not waited for
            process.wait(_DYING_S)
        raise
    lines = [line for line in answer.splitlines() if line.strip()]
    if process.returncode:
        raise ValueError(lines[0].strip() if lines else f"exit code {process.returncode}")
    rows = [[part.strip() for part in line.split(",")] for line in lines]
    if any(len(row) != len(_QUERY.split(",")) for row in rows):
        raise ValueError("its answer is not understood")
    return rows


def _gpu(row: list[str]) -> SystemGpu:
    _, name, _, capability, total, free = row
    return SystemGpu(name, _capability(capability), _bytes(total), _bytes(free))


def _capability(text: str) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def _bytes(text: str) -> int | None:
    return int(text) * _MIB if text.isdecimal() else None
