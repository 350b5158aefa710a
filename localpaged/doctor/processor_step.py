"""Facts of a processor's steps: compiled for it, or torch's operators, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from localpaged.config import Settings
from localpaged.devices import choose_device
from localpaged.doctor.fact import Fact, note, problem
from localpaged.doctor.torch_build import TorchBuild
from localpaged.fitting.formats import CARD_ALONE
from localpaged.models.weight_forms import INT4, INT8

COMPILING_S = 15
"""What compiling takes on a processor of these years, with nothing beside it."""
NOT_TORCHS = (*CARD_ALONE, INT8, INT4)
"""Numbers that torch's operators have no steps in."""

_GET_NUMBA = "Install it again: pip install --force-reinstall numba. `--dtype bfloat16` needs none."


def step_facts(settings: Settings, build: TorchBuild) -> Iterator[Fact]:
    """Tell in which form steps are computed, with what, and whether it is compiled already.

    Raises ConfigError where nothing can be computed as the settings ask for it.
    """
    device = choose_device(settings, build.cards)
    threads = settings.threads or build.num_threads
    if device.is_cuda:
        yield Fact("step", f"computed on {device.label}, not here", numbers={"form": "card"})
        return
    why = why_not_compiled(settings)
    if why and settings.dtype in NOT_TORCHS:
        numbers = _numbers("none", dtype=settings.dtype, why=why, threads=threads)
        yield Fact("step", f"none in {settings.dtype}: {why}", numbers=numbers)
        return
    if why:
        dtype = _dtype(settings, build)
        yield Fact(
            "step",
            f"torch's operators in {dtype}, {_threads(threads)}: {why}",
            numbers=_numbers("torch", dtype=dtype, why=why, threads=threads),
        )
        return
    yield from _compiled(threads, INT4 if settings.dtype == INT4 else INT8)


def why_not_compiled(settings: Settings) -> str:
    """Return what keeps this processor from compiled steps; empty where they are taken."""
    from localpaged.engine.eight_bit import INSTRUCTIONS, has_team_steps, team_instruction

    if settings.dtype in CARD_ALONE:
        return "it is for CUDA cards"
    if settings.dtype not in ("auto", INT8, INT4):
        return f"dtype says {settings.dtype}"
    if team_instruction() is None:
        return f"this processor has none of {', '.join(INSTRUCTIONS.values())}"
    if not has_team_steps():
        return "this system has not the calls that a team of threads needs"
    return ""


def _compiled(threads: int, dtype: str) -> Iterator[Fact]:
    from localpaged.engine.eight_bit import team_instruction

    instruction = team_instruction()
    numbers = _numbers("compiled", dtype=dtype, instruction=instruction, threads=threads)
    try:
        from localpaged_kernels.cpu_step.compiled import is_kept, kept_in
        from localpaged_kernels.cpu_step.team import MOST_THREADS
    except ImportError as error:
        text = f"compiled ones take numba, which cannot be imported: {error}"
        yield problem("step", text, _GET_NUMBA, **numbers)
        return
    numbers["threads"] = threads = min(threads, MOST_THREADS)
    bits = 4 if dtype == INT4 else 8
    text = f"compiled, in {bits} bits with {instruction}, {_threads(threads)}"
    text += ", for models whose shape allows it"
    if bits == 8:
        text += "; files in 4 bits stay as they are"
    yield Fact("step", text, numbers=numbers)
    yield _kept(kept_in(), is_kept=is_kept())


def _kept(folder: Path, *, is_kept: bool) -> Fact:
    """Tell of compiled code whether it is there, or what its absence costs."""
    name, is_writable = "compiled code", _can_be_made(folder)
    numbers = {"path": str(folder), "kept": is_kept, "writable": is_writable}
    if is_kept:
        return Fact(name, f"in {folder}", numbers=numbers)
    if not is_writable:
        text = f"none; each start compiles for some {COMPILING_S} s: {folder} cannot be written"
        return note(name, text, "Give yourself write access to that folder.", **numbers)
    text = f"none yet; the first start compiles it, some {COMPILING_S} s, into {folder}"
    return Fact(name, text, numbers=numbers)


def _can_be_made(folder: Path) -> bool:
    """Whether a folder can be written, or made in what is there of the way to it."""
    above = next(part for part in (folder, *folder.parents) if os.path.lexists(part))
    return above.is_dir() and os.access(above, os.W_OK | os.X_OK)


def _dtype(settings: Settings, build: TorchBuild) -> str:
    if settings.dtype != "auto":
        return settings.dtype
    from localpaged.fitting.formats import FAST_BFLOAT16

    return "bfloat16" if any(build.cpu.get(name) for name in FAST_BFLOAT16) else "float32"


def _numbers(form: str, **numbers: Any) -> dict[str, Any]:
    """Return the same fields for every form, those that say nothing as None."""
    return {"form": form, "instruction": None, "why": None, **numbers}


def _threads(count: int) -> str:
    return f"{count} thread{'' if count == 1 else 's'}"
