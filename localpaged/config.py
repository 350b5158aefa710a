"""Settings of one run, checked when made; `None` means "choose for this machine"."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from localpaged.engine.params import SamplingParams
from localpaged.errors import ConfigError

if TYPE_CHECKING:
    from localpaged.remote.endpoint import Endpoint

DTYPES = ("auto", "float32", "bfloat16", "float16", "int8", "int4")
KV_DTYPES = ("auto", "float32", "bfloat16", "float16", "int8", "fp8")
DEVICE = re.compile(r"auto|cpu|cuda(?::(\d{1,3}))?")
MIN_CONTEXT_TOKENS = 64
MIN_KV_MEMORY_BYTES = 1 << 20
DEFAULT_KV_DISK_BYTES = 2 << 30
DEFAULT_WEIGHTS_DISK_BYTES = 16 << 30


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for. Raises ConfigError for values that make no sense.

    `device` is where it is computed: auto, cpu, cuda or cuda:N.
    `kv_dtype` is what K and V are kept in; "auto" is what is computed in.
    `context_tokens` bounds prompt and answer together; `kv_memory_bytes` the KV pool;
    `host_memory_bytes` keep KV that the pool gives up; `kv_disk_bytes` of files KV, and
    `weights_disk_bytes` rounded weights, for the next run, 0 being none. `threads` is how many
    cores torch may use.
    `sampling` is what chats begin with. `remotes` are endpoints that may be named as models.
    `origins` are the variables, or keys of the config file, that settings were given by, under the
    names of their keys; one that is not there is an option, or nobody's.
    """

    model: str
    dtype: str = "auto"
    kv_dtype: str = "auto"
    context_tokens: int | None = None
    kv_memory_bytes: int | None = None
    host_memory_bytes: int = 0
    kv_disk_bytes: int = 0
    weights_disk_bytes: int = 0
    threads: int | None = None
    sampling: SamplingParams = field(default_factory=SamplingParams)
    remotes: tuple[Endpoint, ...] = ()
    device: str = "auto"
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)

    def origin(self, key: str) -> str:
        """Return what to change for another value: an option, a variable, a key of the file."""
        return self.origins.get(key, f"--{key.replace('_', '-')}")

    def __post_init__(self) -> None:
        if "://" in self.model:
            from localpaged.remote.endpoint import find_endpoint

            # before anybody shows it: there may be a password in it, which is refused
            find_endpoint(self.model, self.remotes)
        if DEVICE.fullmatch(self.device) is None:
            raise self._refusal(
                "device",
                f"{self.device!r} is not a device.",
                "Choose auto, cpu, cuda, or a card by its number, such as cuda:1.",
            )
        if self.dtype not in DTYPES:
            choices = f"Choose one of {', '.join(DTYPES)}."
            raise self._refusal("dtype", f"{self.dtype!r} is not a dtype.", choices)
        if self.kv_dtype not in KV_DTYPES:
            choices = f"Choose one of {', '.join(KV_DTYPES)}."
            what = f"{self.kv_dtype!r} is not a dtype of KV memory."
            raise self._refusal("kv_dtype", what, choices)
        if self.context_tokens is not None and self.context_tokens < MIN_CONTEXT_TOKENS:
            raise self._refusal(
                "context",
                f"A context of {self.context_tokens} tokens is too small to chat.",
                f"Give it at least {MIN_CONTEXT_TOKENS}.",
            )
        if self.kv_memory_bytes is not None and self.kv_memory_bytes < MIN_KV_MEMORY_BYTES:
            raise self._refusal(
                "kv_memory",
                f"{self.kv_memory_bytes:,} bytes of KV memory are too few to chat.",
                f"Give it at least {MIN_KV_MEMORY_BYTES >> 20}M.",
            )
        if self.host_memory_bytes:
            self._check_host_memory()
        num_cores = os.cpu_count() or 1
        if self.threads is not None and not 1 <= self.threads <= num_cores:
            raise self._refusal(
                "threads",
                f"{self.threads:,} threads were asked for; this machine has {num_cores} cores.",
                f"Give 1 to {num_cores}, or leave it out.",
            )

    def _check_host_memory(self) -> None:
        import psutil

        total_bytes = psutil.virtual_memory().total
        if self.host_memory_bytes > total_bytes:
            raise self._refusal(
                "host_memory",
                f"{self.host_memory_bytes / 2**30:,.1f} GiB of host memory were asked for; this "
                f"machine has {total_bytes / 2**30:,.1f}.",
                f"Ask for less with {self.origin('host_memory')}, or leave it out.",
            )

    def _refusal(self, key: str, sentence: str, hint: str) -> ConfigError:
        """Return an error that names where the value came from, unless it was just typed."""
        origin = self.origins.get(key)
        return ConfigError(f"{origin}: {sentence}" if origin else sentence, hint=hint)
