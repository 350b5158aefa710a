"""Machines that are not there: what a driver, torch and a terminal would tell on them."""

from __future__ import annotations

from localpaged.cards import Card, Cards
from localpaged.doctor.nvidia import Nvidia, SystemGpu
from localpaged.doctor.terminal import Streams
from localpaged.doctor.torch_build import TorchBuild

GIB = 2**30
PROCESSOR = {"avx2": True, "avx512_f": True, "avx512_vnni": True, "avx512_bf16": True}
CPU_BUILD = TorchBuild("2.13.0+cpu", PROCESSOR, "AVX512", num_threads=1)
CARD = Card(0, "RTX 4090", (8, 9), 24 * GIB, 20 * GIB)
CUDA_BUILD = TorchBuild(
    "2.13.0+cu130",
    PROCESSOR,
    "AVX512",
    num_threads=1,
    cards=Cards("13.0", (CARD,), triton="3.7.0"),
    architectures=("sm_80", "sm_90"),
)
GPU = Nvidia("580.82.07", (SystemGpu("RTX 4090", (8, 9), 24 * GIB, 20 * GIB),), 1)
PIPE = Streams(False, False, 0, 0, "utf-8")
