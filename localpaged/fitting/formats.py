"""NumberFormats: what is computed in which dtype, chosen for the device and what was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localpaged.config import Settings
from localpaged.decoder_config import DecoderConfig
from localpaged.errors import ConfigError
from localpaged.fitting.room import Room

if TYPE_CHECKING:
    import torch

WIDE_SHARE_OF_FREE_MEMORY = 0.25
FAST_BFLOAT16 = ("amx_bf16", "avx512_bf16", "bf16")
CARD_ALONE = ("float16", "fp8")
"""Formats that only a card computes in."""


@dataclass(frozen=True, slots=True)
class NumberFormats:
    """What is computed in which dtype.

    `kv` is what K and V are kept in, `projections` the weight matrices. With `has_four_bit`,
    4-bit weights stay 4-bit for small batches; with `has_eight_bit`, weights are rounded to 8 bits
    after they were read.
    """

    activations: torch.dtype
    projections: torch.dtype
    kv: torch.dtype
    has_four_bit: bool
    has_eight_bit: bool = False

    @property
    def name(self) -> str:
        """How the program tells it."""
        return "int8" if self.has_eight_bit else str(self.activations).removeprefix("torch.")


def choose_formats(config: DecoderConfig, settings: Settings, room: Room) -> NumberFormats:
    """Return the fastest formats of the device that the settings allow.

    Raises ConfigError for those that the device does not compute in.
    """
    if room.device.is_cuda:
        return _on_card(settings)
    for key, chosen in (("dtype", settings.dtype), ("kv_dtype", settings.kv_dtype)):
        if chosen in CARD_ALONE:
            name = settings.origin(key)
            raise ConfigError(
                f"{name} {chosen} is for CUDA cards; the processor computes here.",
                hint=f"Leave out {name}; `localpaged doctor` tells why no card is used.",
            )
    return _on_processor(config, settings, room)


def _on_card(settings: Settings) -> NumberFormats:
    import torch

    chosen = {"float32": torch.float32, "float16": torch.float16}
    dtype = chosen.get(settings.dtype, torch.bfloat16)
    return NumberFormats(dtype, dtype, _kv_dtype(settings, dtype), has_four_bit=False)


def _on_processor(config: DecoderConfig, settings: Settings, room: Room) -> NumberFormats:
    import torch

    from localpaged.engine.eight_bit import can_be_eight_bit
    from localpaged.models.opened_model import count_parameters

    abilities = torch.cpu.get_capabilities()
    is_fast = any(abilities.get(name) for name in FAST_BFLOAT16)
    if settings.dtype == "auto" and can_be_eight_bit(config):
        kv = _kv_dtype(settings, torch.bfloat16)
        return NumberFormats(
            torch.bfloat16, torch.bfloat16, kv, has_four_bit=False, has_eight_bit=True
        )
    if settings.dtype == "float32" or (settings.dtype == "auto" and not is_fast):
        kv = _kv_dtype(settings, torch.float32)
        return NumberFormats(torch.float32, torch.float32, kv, has_four_bit=False)
    # Without AMX a core multiplies float32 matrices faster than bfloat16 ones; it is a matter of
    # memory whether the weights can be kept that wide.
    wide_bytes = torch.float32.itemsize * count_parameters(config)
    fits_wide = wide_bytes <= WIDE_SHARE_OF_FREE_MEMORY * room.free_bytes
    is_wide = not abilities.get("amx_bf16") and fits_wide
    return NumberFormats(
        torch.bfloat16,
        torch.float32 if is_wide else torch.bfloat16,
        _kv_dtype(settings, torch.bfloat16),
        has_four_bit=True,
    )


def _kv_dtype(settings: Settings, activations: torch.dtype) -> torch.dtype:
    import torch

    chosen = {
        "float32": torch.float32,
        "bfloat16": torch.bfloat16,
        "float16": torch.float16,
        "int8": torch.int8,
        "fp8": torch.float8_e4m3fn,
    }
    return chosen.get(settings.kv_dtype, activations)
