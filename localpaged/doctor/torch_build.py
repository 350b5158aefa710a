"""What torch tells of itself, of the processor and of GPUs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any


@dataclass(frozen=True, slots=True)
class TorchGpu:
    """A GPU as torch sees it."""

    name: str
    capability: tuple[int, int]
    total_bytes: int
    num_processors: int


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """The installed torch. `cuda` is the CUDA it was built for, empty in a build for processors.

    `cpu` are the processor's abilities by torch's names; `capability` is what its operators are
    built for. `gpus` are those it can use, `gpu_trouble` why it can use none. `architectures` are
    those that its own kernels were compiled for, such as sm_90.
    """

    version: str = ""
    cuda: str = ""
    cpu: Mapping[str, Any] = field(default_factory=dict)
    capability: str = ""
    num_threads: int = 0
    gpus: tuple[TorchGpu, ...] = ()
    gpu_trouble: str = ""
    architectures: tuple[str, ...] = ()
    triton: str = ""


def read_torch() -> TorchBuild:
    """Import torch and look at it. Raises ImportError, OSError for a library that is missing."""
    import torch

    gpus: tuple[TorchGpu, ...] = ()
    trouble = ""
    cuda = str(torch.version.cuda or "")
    if cuda:
        gpus, trouble = _gpus()
    return TorchBuild(
        version=str(torch.__version__),
        cuda=cuda,
        cpu=torch.cpu.get_capabilities(),
        capability=str(torch.backends.cpu.get_cpu_capability()),
        num_threads=torch.get_num_threads(),
        gpus=gpus,
        gpu_trouble=trouble,
        architectures=tuple(torch.cuda.get_arch_list()) if gpus else (),
        triton=_version("triton"),
    )


def _gpus() -> tuple[tuple[TorchGpu, ...], str]:
    import torch

    with warnings.catch_warnings(record=True) as said:
        # why there is none, such as a driver that is too old, is told by a warning alone
        warnings.simplefilter("always")
        try:
            if torch.cuda.is_available():
                count = torch.cuda.device_count()
                return tuple(_gpu(torch.cuda.get_device_properties(i)) for i in range(count)), ""
        except Exception as error:
            # a driver in a bad state raises what it likes
            return (), str(error)
    return (), str(said[-1].message) if said else "torch finds none"


def _gpu(properties: Any) -> TorchGpu:
    capability = (properties.major, properties.minor)
    count = properties.multi_processor_count
    return TorchGpu(str(properties.name), capability, properties.total_memory, count)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
