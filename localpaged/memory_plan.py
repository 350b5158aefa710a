"""What loading a model will take, told and checked before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass

from localpaged.decoder_config import DecoderConfig
from localpaged.errors import NoRoom
from localpaged.plain_text import visible

LOGITS_ROWS = 64
"""Rows of float32 logits that a step may hold at once."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes by purpose. `kv_bytes` is what the pool begins with; it may grow later."""

    weight_bytes: int
    kv_bytes: int
    working_bytes: int

    @property
    def total_bytes(self) -> int:
        """All of it."""
        return self.weight_bytes + self.kv_bytes + self.working_bytes

    def check(self, model_name: str, *, free_bytes: int) -> None:
        """Raise NoRoom, with the numbers, when it does not fit into the free memory."""
        if self.total_bytes <= free_bytes:
            return
        raise NoRoom(
            f"{visible(model_name)} needs {_gib(self.total_bytes)}: {_gib(self.weight_bytes)} for "
            f"weights, {_gib(self.kv_bytes)} for KV, {_gib(self.working_bytes)} to compute; "
            f"{_gib(free_bytes)} are free.",
            hint="Unload another model, ask for a smaller context, or take a smaller model.",
        )


def working_bytes(config: DecoderConfig, *, step_tokens: int) -> int:
    """Return what a forward pass of `step_tokens` tokens holds besides weights and KV, at most."""
    widest = max(2 * config.intermediate_size, config.qkv_rows) + 4 * config.hidden_size
    return 4 * (step_tokens * widest + LOGITS_ROWS * config.vocab_size)


def _gib(num_bytes: int) -> str:
    return f"{num_bytes / 2**30:.2f} GiB"
