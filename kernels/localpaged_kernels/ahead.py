"""Compiles a Launch for cards that need not be there, and tells what each build takes of them."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localpaged_kernels.launch import Launch

ARCHITECTURES = (80, 86, 89, 90, 100, 120)
"""Compute capabilities that every kernel is compiled for: Ampere to Blackwell."""

SHARED_LIMIT_BYTES = {80: 166912, 86: 101376, 89: 101376, 90: 232448, 100: 232448, 120: 101376}
"""Shared memory that one program may have on each."""

_TYPES = {
    "torch.float32": "fp32",
    "torch.bfloat16": "bf16",
    "torch.float16": "fp16",
    "torch.float8_e4m3fn": "fp8e4nv",
    "torch.int8": "i8",
    "torch.uint8": "u8",
    "torch.int16": "i16",
    "torch.int32": "i32",
    "torch.int64": "i64",
}


@dataclass(frozen=True, slots=True)
class Build:
    """What one thread takes of registers and, spilled, of local memory, and a program of shared.

    `copies_ahead` are the asynchronous copies into shared memory that may still be on their way
    when the ones in front of them are waited for; 0 where all are waited for at once.
    """

    registers: int
    spilled_bytes: int
    shared_bytes: int
    copies_ahead: int


def compile_ahead(launch: Launch, architecture: int) -> Build:
    """Compile a launch as it would be compiled on a card of that architecture, such as 86.

    Triton must not interpret (TRITON_INTERPRET) in this process. Raises what its compiler raises.
    """
    built = _built(launch, architecture)
    registers, spilled_bytes = _resources(built.asm["cubin"])
    waits = re.findall(r"cp\.async\.wait_group\s+(\d+)", built.asm["ptx"])
    copies_ahead = max(map(int, waits), default=0)
    return Build(registers, spilled_bytes, built.metadata.shared, copies_ahead)


def machine_code(launch: Launch, architecture: int) -> str:
    """Return the instructions that a launch becomes, as NVIDIA's disassembler tells them.

    Two words of 64 bits follow each: in their upper bits is what it waits for.
    """
    from triton import knobs

    cubin = _built(launch, architecture).asm["cubin"]
    return _told(cubin, knobs.nvidia.nvdisasm.path, "--print-code", "--print-instruction-encoding")


def _built(launch: Launch, architecture: int) -> Any:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = launch.kernel.arg_names
    signature: dict[str, str] = {}
    constants: dict[tuple[int, ...], Any] = {}
    attributes: dict[tuple[int, ...], list[list[object]]] = {}
    for place, (name, parameter) in enumerate(zip(names, launch.kernel.params, strict=True)):
        value = launch.constants.get(name, launch.args.get(name))
        is_special = not parameter.do_not_specialize
        is_one = is_special and type(value) is int and value == 1
        if name in launch.constants or value is None or is_one:
            signature[name], constants[place,] = "constexpr", value
            continue
        signature[name] = _type_of(value)
        if is_special and _is_aligned(value):
            attributes[place,] = [["tt.divisibility", 16]]
    return triton.compile(
        ASTSource(launch.kernel, signature, constants, attributes),
        target=GPUTarget("cuda", architecture, 32),
        options=dict(launch.options),
    )


def _type_of(value: object) -> str:
    if isinstance(value, float):
        return "fp32"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    return "*" + _TYPES[str(getattr(value, "dtype", None))]


def _is_aligned(value: object) -> bool:
    """Whether Triton takes a number for a multiple of 16; memory of torch always begins at one."""
    return not isinstance(value, float) and (not isinstance(value, int) or value % 16 == 0)


def _resources(cubin: bytes) -> tuple[int, int]:
    """Return registers and bytes of local memory of the one kernel in a binary."""
    from triton import knobs

    told = _told(cubin, knobs.nvidia.cuobjdump.path, "--dump-resource-usage")
    numbers = dict(re.findall(r"\b(REG|STACK|LOCAL):(\d+)", told))
    return int(numbers["REG"]), int(numbers["STACK"]) + int(numbers["LOCAL"])


def _told(cubin: bytes, program: str, *options: str) -> str:
    """Return what one of NVIDIA's programs, which come with Triton, says of a binary."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        command = [program, *options, str(path)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
