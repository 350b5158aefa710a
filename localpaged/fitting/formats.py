"""NumberFormats: what is computed in which dtype, chosen for the device and what was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from localpaged.config import Settings
from localpaged.decoder_config import DecoderConfig
from localpaged.errors import ConfigError
from localpaged.fitting.room import Room
from localpaged.models.weight_forms import (
    AS_FILED,
    DENSE,
    INT4,
    INT8,
    PACKED,
    Asked,
    Form,
)

if TYPE_CHECKING:
    import torch

WIDE_SHARE_OF_FREE_MEMORY = 0.25
FAST_BFLOAT16 = ("amx_bf16", "avx512_bf16", "bf16")
LARGE_MODEL = 1 << 29
"""From so many numbers on, a processor keeps the 4 bits of a model's file unless told otherwise."""

CARD_ALONE = ("float16", "fp8")
"""Formats that only a card computes in."""


@dataclass(frozen=True, slots=True)
class NumberFormats:
    """What is computed in which dtype.

    `kv` is what K and V are kept in, `projections` the weight matrices. With `has_four_bit`,
    4-bit weights stay 4-bit for small batches; with `has_eight_bit`, weights are rounded to 8 bits
    after they were read; with `has_groups`, they are computed with in groups: all three are the
    processor's. On a card, and in groups, `weights` are what matrices are kept in, and most of them
    are `main`.
    """

    activations: torch.dtype
    projections: torch.dtype
    kv: torch.dtype
    has_four_bit: bool
    has_eight_bit: bool = False
    has_groups: bool = False
    weights: Asked = DENSE
    main: Form = DENSE

    @property
    def is_compiled(self) -> bool:
        """Whether a step is one call of compiled code: the processor's, in 8 bits or in groups."""
        return self.has_eight_bit or self.has_groups

    @property
    def name(self) -> str:
        """How the program tells it."""
        if self.main != DENSE:
            return self.main
        return INT8 if self.has_eight_bit else str(self.activations).removeprefix("torch.")


def choose_formats(
    config: DecoderConfig, settings: Settings, room: Room, *, file_form: Form = DENSE
) -> NumberFormats:
    """Return the fastest formats of the device that the settings allow.

    `file_form` is what most of the layers' matrices are where they stay as their file has them.
    Raises ConfigError for formats that the device does not compute in.
    """
    if room.device.is_cuda:
        return _on_card(settings, file_form)
    for key, chosen in (("dtype", settings.dtype), ("kv_dtype", settings.kv_dtype)):
        if chosen in CARD_ALONE:
            name = settings.origin(key)
            raise ConfigError(
                f"{name} {chosen} is for CUDA cards; the processor computes here.",
                hint=f"Leave out {name}; `localpaged doctor` tells why no card is used.",
            )
    return _on_processor(config, settings, room, file_form)


def _on_card(settings: Settings, file_form: Form) -> NumberFormats:
    """Keep a file's 8 and 4 bits by default: who chose such a file wants the memory and the speed.

    Whether the wide numbers would fit is not asked: the same file gives the same numbers whatever
    else is on the card, and KV that was kept of them stays of use.
    """
    import torch

    chosen = {"float32": torch.float32, "float16": torch.float16}
    dtype = chosen.get(settings.dtype, torch.bfloat16)
    asked: dict[str, tuple[Asked, Form]] = {INT8: (INT8, INT8), INT4: (INT4, INT4)}
    if file_form != DENSE:
        asked["auto"] = (AS_FILED, file_form)
    weights, main = asked.get(settings.dtype, (DENSE, DENSE))
    kv = _kv_dtype(settings, dtype)
    return NumberFormats(dtype, dtype, kv, has_four_bit=False, weights=weights, main=main)


def _on_processor(
    config: DecoderConfig, settings: Settings, room: Room, file_form: Form
) -> NumberFormats:
    import torch

    from localpaged.engine.eight_bit import can_be_eight_bit
    from localpaged.models.opened_model import count_parameters

    abilities = torch.cpu.get_capabilities()
    is_fast = any(abilities.get(name) for name in FAST_BFLOAT16)
    if (weights := _in_groups(config, settings, file_form)) != DENSE:
        kv = _kv_dtype(settings, torch.bfloat16)
        return NumberFormats(
            torch.bfloat16, torch.bfloat16, kv, False, has_groups=True, weights=weights, main=INT4
        )
    if settings.dtype == INT4 or (settings.dtype == INT8 and not can_be_eight_bit(config)):
        raise _no_few_bits(settings)
    if settings.dtype in ("auto", INT8) and can_be_eight_bit(config):
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


def _in_groups(config: DecoderConfig, settings: Settings, file_form: Form) -> Asked:
    """Return what matrices are kept in where they are computed with in groups; else DENSE.

    The 4 bits of a large model's file stay as they are: an answer is written faster, in half the
    memory. Of a small one neither is much, and prompts would be read more slowly.
    """
    from localpaged.engine.eight_bit import can_be_grouped
    from localpaged.models.opened_model import count_parameters

    is_wanted = settings.dtype == INT4
    if settings.dtype == "auto":
        is_wanted = file_form == INT4 and count_parameters(config) >= LARGE_MODEL
    if not is_wanted or not can_be_grouped(config):
        return DENSE
    return PACKED if file_form == INT4 else INT4


def _no_few_bits(settings: Settings) -> ConfigError:
    from localpaged.engine.eight_bit import has_team_steps

    name = settings.origin("dtype")
    why = (
        "this model's shape does not allow it"
        if has_team_steps()
        else "this processor has neither AVX2 nor anything newer"
    )
    return ConfigError(
        f"{name} {settings.dtype} cannot be computed on the processor: {why}.",
        hint=f"Leave out {name} for what is fastest here.",
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
