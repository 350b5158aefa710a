"""Settings of one run, checked when made; `None` means "choose for this machine"."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from localpaged.engine.params import SamplingParams
from localpaged.errors import ConfigError

if TYPE_CHECKING:
    from localpaged.remote.endpoint import Endpoint

DTYPES = ("auto", "float32", "bfloat16", "float16")
KV_DTYPES = ("auto", "float32", "bfloat16", "float16", "int8")
DEVICE = re.compile(r"auto|cpu|cuda(?::(\d{1,3}))?")
MIN_CONTEXT_TOKENS = 64
MIN_KV_MEMORY_BYTES = 1 << 20
DEFAULT_KV_DISK_BYTES = 2 << 30


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for. Raises ConfigError for values that make no sense.

    `device` is where it is computed: auto, cpu, cuda or cuda:N.
    `kv_dtype` is what K and V are kept in; "auto" is what is computed in.
    `context_tokens` bounds prompt and answer together; `kv_memory_bytes` the KV pool;
    `host_memory_bytes` keep KV that the pool gives up; `kv_disk_bytes` of files what shall be there
    in the next run, 0 being none. `threads` is how many cores torch may use.
    `sampling` is what chats begin with. `remotes` are endpoints that may be named as models.
    """

    model: str
    dtype: str = "auto"
    kv_dtype: str = "auto"
    context_tokens: int | None = None
    kv_memory_bytes: int | None = None
    host_memory_bytes: int = 0
    kv_disk_bytes: int = 0
    threads: int | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    remotes: tuple[Endpoint, ...] = ()
    device: str = "auto"

    def __post_init__(self) -> None:
        if "://" in self.model:
            from localpaged.remote.endpoint import find_endpoint

            # before anybody shows it: there may be a password in it, which is refused
            find_endpoint(self.model, self.remotes)
        if DEVICE.fullmatch(self.device) is None:
            raise ConfigError(
                f"{self.device!r} is not a device.",
                hint="Choose auto, cpu, cuda, or a card by its number, such as cuda:1.",
            )
        if self.dtype not in DTYPES:
            raise ConfigError(
                f"{self.dtype!r} is not a dtype.", hint=f"Choose one of {', '.join(DTYPES)}."
            )
        if self.kv_dtype not in KV_DTYPES:
            raise ConfigError(
                f"{self.kv_dtype!r} is not a dtype of KV memory.",
                hint=f"Choose one of {', '.join(KV_DTYPES)}.",
            )
        if self.context_tokens is not None and self.context_tokens < MIN_CONTEXT_TOKENS:
            raise ConfigError(
                f"A context of {self.context_tokens} tokens is too small to chat.",
                hint=f"Give it at least {MIN_CONTEXT_TOKENS}.",
            )
        if self.kv_memory_bytes is not None and self.kv_memory_bytes < MIN_KV_MEMORY_BYTES:
            raise ConfigError(
                f"{self.kv_memory_bytes:,} bytes of KV memory are too few to chat.",
                hint=f"Give it at least {MIN_KV_MEMORY_BYTES >> 20}M.",
            )
        if self.host_memory_bytes:
            self._check_host_memory()
        num_cores = os.cpu_count() or 1
        if self.threads is not None and not 1 <= self.threads <= num_cores:
            raise ConfigError(
                f"{self.threads:,} threads were asked for; this machine has {num_cores} cores.",
                hint=f"Give 1 to {num_cores}, or leave it out.",
            )

    def _check_host_memory(self) -> None:
        import psutil

        total_bytes = psutil.virtual_memory().total
        if self.host_memory_bytes > total_bytes:
            raise ConfigError(
                f"{self.host_memory_bytes / 2**30:,.1f} GiB of host memory were asked for; this "
                f"machine has {total_bytes / 2**30:,.1f}.",
                hint="Ask for less with --host-memory, or leave it out.",
            )
