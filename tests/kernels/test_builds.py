"""Kernels compile for every card on a machine without one, spill nothing, and fit.

What each takes is in docs/kernel-builds.md. A few builds a card are looked at here, `make kernels`
looks at all of them.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = (ROOT / "docs" / "kernel-builds.md").read_text()
SCRIPT = ROOT / "benchmarks" / "kernel_builds.py"
ARCHITECTURES = (80, 86, 89, 90, 100, 120)
SHARED_LIMIT_BYTES = {80: 166912, 86: 101376, 89: 101376, 90: 232448, 100: 232448, 120: 101376}

TELLING = {
    80: ["decode, bf16 on fp8, 32/8 of 128", "write, bf16 into fp8, 8/4 of 256, norms"],
    86: [
        "decode, bf16, 32/8 of 128, 16 parts, last merges",
        "chunk, bf16 on int8, 32/8 of 128",
        "linear, bf16 by 8 bits, up to 64 rows, 4 parts, bias",
    ],
    89: [
        "decode, fp16, 28/4 of 112",
        "draw from 151,936",
        "linear, bf16 by 4 bits, up to 16 rows, 4 parts",
        "numbers of 4 bits, bf16",
    ],
    90: [
        "decode, bf16 on fp8, 32/8 of 128",
        "8/4 heads of 256, decode, fp32",
        "linear, bf16 by 4 bits, up to 64 rows, bias",
    ],
    100: [
        "Llama 3 70B, decode, int8, with a window",
        "Qwen3 0.6B, decode, with a cap",
        "cascade, bf16, 32/8 of 128",
        "norm of 4,096, bf16, residual",
    ],
    120: [
        "SmolLM2 135M, decode",
        "Danube 3, decode",
        "8/4 heads of 256, decode, fp32",
        "gpt-oss, chunk, int8, in parts",
        "copy of blocks, bf16",
    ],
}


def cells():
    rows = re.findall(r"^\| ([^|]+?) \| (\d.*) \|$", TABLE, re.MULTILINE)
    return {
        (name, architecture): cell
        for name, row in rows
        for architecture, cell in zip(ARCHITECTURES, row.split(" | "), strict=True)
    }


@pytest.fixture(scope="module")
def built():
    wanted = [f"{name}@{a}" for a, names in TELLING.items() for name in names]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", SCRIPT, "--json", *wanted],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env={**os.environ, "TRITON_CACHE_DIR": str(ROOT / ".pytest_cache" / "triton")},
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {tuple(line["key"]): line["builds"] for line in lines}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_kernels_compile_for_a_card_that_is_not_there_and_take_what_the_table_says(
    built, architecture
):
    import triton

    for name in TELLING[architecture]:
        builds = built[name, architecture]
        assert builds
        assert not any(build["spilled_bytes"] for build in builds), name
        assert all(b["shared_bytes"] <= SHARED_LIMIT_BYTES[architecture] for b in builds), name
        assert all(0 < build["registers"] <= 255 for build in builds), name
        if f"by Triton {triton.__version__}:" in TABLE:
            took = " + ".join(f"{b['registers']} / {b['shared_bytes']}" for b in builds)
            assert took == cells()[name, architecture]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_next_tile_of_a_decode_is_on_its_way_while_one_is_computed(built, architecture):
    decodes = [
        name
        for name in TELLING[architecture]
        if ("decode" in name or "linear" in name) and "fp32" not in name
    ]
    assert decodes
    for name in decodes:
        assert built[name, architecture][0]["copies_ahead"], name


def test_the_table_has_every_case_for_every_card():
    done = subprocess.run(
        [sys.executable, "-c", "from kernel_cases import CASES; print(*CASES, sep='\\n')"],
        capture_output=True,
        text=True,
        check=True,
        cwd=SCRIPT.parent,
    )
    names = done.stdout.splitlines()
    assert len(names) > 20
    assert set(cells()) == {(name, a) for name in names for a in ARCHITECTURES}
