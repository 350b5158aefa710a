"""Facts of Python, the system, the processor and its memory, and the number formats they allow."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from localpaged.config import Settings
from localpaged.doctor.fact import Fact, note, problem
from localpaged.doctor.torch_build import TorchBuild

if TYPE_CHECKING:
    from localpaged.fitting.room import Room
    from localpaged.models.opened_model import OpenedModel

# packages are imported by what needs them: one that is broken must not hide the rest
LEAST_PYTHON = (3, 11)
LITTLE_MEMORY_BYTES = 1 << 30
"""With less free than this, the system is about to swap whatever the model is."""

ABILITIES = {
    "AVX2": ("avx2",),
    "AVX-512": ("avx512_f",),
    "VNNI": ("avx512_vnni", "avx_vnni"),
    "bfloat16": ("avx512_bf16", "bf16"),
    "AMX": ("amx_bf16", "amx_int8"),
}
_LIMITS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)


def system_facts() -> Iterator[Fact]:
    """Tell interpreter and system."""
    version = platform.python_version()
    text = f"{version}, {sys.executable}"
    if sys.version_info < LEAST_PYTHON:
        least = ".".join(map(str, LEAST_PYTHON))
        yield problem("Python", text, f"localpaged needs Python {least} or newer.")
    else:
        yield Fact("Python", text, numbers={"version": version})
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    if platform.system() != "Linux":
        yield note("system", system, "localpaged is made for and tried on Linux.")
    else:
        yield Fact("system", system)


def processor_facts(build: TorchBuild) -> Iterator[Fact]:
    """Tell the processor as torch sees it, and how many cores compute."""
    has = [name for name, keys in ABILITIES.items() if any(build.cpu.get(key) for key in keys)]
    lacks = [name for name in ABILITIES if name not in has]
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    numbers = {"cores": os.cpu_count(), "usable_cores": usable, "abilities": has}
    text = f"{_processor_name(build)}, {usable} of {os.cpu_count()} cores usable"
    abilities = f"{', '.join(has) or 'none that count'}; torch computes with {build.capability}"
    if lacks:
        abilities += f"; it has no {', '.join(lacks)}"
    yield Fact("processor", text, numbers=numbers)
    yield Fact("abilities", abilities, numbers={"torch": build.capability})
    threads = f"{build.num_threads} compute where the settings say nothing else"
    if usable and build.num_threads > usable:
        advice = "More threads than cores wait for each other: set OMP_NUM_THREADS or `threads`."
        yield note("threads", threads, advice, threads=build.num_threads)
    else:
        yield Fact("threads", threads, numbers={"threads": build.num_threads})


def memory_facts() -> Iterator[Fact]:
    """Tell the memory of the machine, and the limit of the container, if it is lower."""
    import psutil

    memory = psutil.virtual_memory()
    numbers = {"total_bytes": memory.total, "free_bytes": memory.available}
    text = f"{_gib(memory.available)} free of {_gib(memory.total)}"
    if memory.available < LITTLE_MEMORY_BYTES:
        yield note("memory", text, "Close other programs: little is free.", **numbers)
    else:
        yield Fact("memory", text, numbers=numbers)
    limit = _container_limit()
    if limit is not None and limit[0] < memory.total:
        most, used = limit
        advice = "The system kills a program that takes more: lower --kv-memory."
        yield note(
            "container",
            f"this session may use {_gib(most)}, {_gib(used)} of it are in use",
            advice,
            limit_bytes=most,
            used_bytes=used,
        )


def format_facts(
    opened: OpenedModel, settings: Settings, build: TorchBuild, room: Room
) -> Iterator[Fact]:
    """Tell in which numbers a model would be computed, and why."""
    from localpaged.engine.eight_bit import has_team_steps, team_instruction
    from localpaged.fitting.formats import FAST_BFLOAT16, choose_formats
    from localpaged.models.weight_forms import AS_FILED, PACKED

    formats = choose_formats(opened.config, settings, room, file_form=opened.file_form)
    kv = str(formats.kv).removeprefix("torch.")
    numbers = {"weights": formats.name, "kv": kv}
    if settings.dtype != "auto":
        why = f"as dtype says {settings.dtype}"
        if formats.name != settings.dtype:
            why += ", with what the processor has"
    elif formats.weights in (AS_FILED, PACKED):
        why = "the file has most of its weights so"
    elif room.device.is_cuda:
        why = "the card multiplies bfloat16 fastest"
    elif formats.has_eight_bit:
        why = f"the processor has {team_instruction()}"
    else:
        is_fast = any(build.cpu.get(name) for name in FAST_BFLOAT16)
        why = f"the processor {'multiplies' if is_fast else 'does not multiply'} bfloat16"
        if has_team_steps():
            why += ", and this model's shape does not allow 8 bits"
    text = f"{formats.name} for weights, {kv} for KV: {why}"
    yield Fact("number format", text, numbers=numbers)


def _processor_name(build: TorchBuild) -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # then torch's name will do
    return str(build.cpu.get("cpu_name") or platform.processor() or platform.machine())


def _container_limit() -> tuple[int, int] | None:
    """Return the bytes that a control group allows and those in use; None without a limit."""
    for limit, used in _LIMITS:
        try:
            most = limit.read_text().strip()
            now = used.read_text().strip()
        except OSError:
            continue
        return (int(most), int(now)) if most.isdecimal() and now.isdecimal() else None
    return None


def environment_facts(environment: Mapping[str, str]) -> Iterator[Fact]:
    """Tell what the environment says of threads and how they wait."""
    cores = os.cpu_count() or 1
    threads = environment.get("OMP_NUM_THREADS")
    if threads is not None:
        first = threads.split(",")[0].strip()
        if not first.isdecimal() or not int(first):
            advice = "Give it a number of cores, or unset it: libraries ignore what is none."
            yield note("OMP_NUM_THREADS", threads, advice)
        elif int(first) < cores:
            advice = f"Unset it to compute on all {cores} cores."
            yield note("OMP_NUM_THREADS", threads, advice)
        else:
            yield Fact("OMP_NUM_THREADS", threads)
    policy = environment.get("OMP_WAIT_POLICY")
    if policy is not None:
        is_active = policy.strip().lower() == "active"
        advice = "Threads that spin take the processor from the screen: unset it, or say passive."
        yield (
            note("OMP_WAIT_POLICY", policy, advice)
            if is_active
            else Fact("OMP_WAIT_POLICY", policy)
        )
    spins = environment.get("GOMP_SPINCOUNT")
    if spins is not None:
        advice = "localpaged sets 10000 where nothing is said: unset it unless you measured."
        yield note("GOMP_SPINCOUNT", spins, advice)
    for name in ("CUDA_VISIBLE_DEVICES", "MKL_NUM_THREADS", "KMP_AFFINITY"):
        if name in environment:
            yield note(name, environment[name] or "empty", "It was set before localpaged began.")


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.1f} GiB"
