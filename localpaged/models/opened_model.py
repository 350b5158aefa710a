"""A model that is open: checked, its tokenizer ready, its tensors found but not loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from localpaged.decoder_config import DecoderConfig
from localpaged.models.chat_format import ChatFormat
from localpaged.models.tensor_files import SourceFile
from localpaged.models.tensor_layout import TensorPlace, tensor_layout
from localpaged.models.weight_forms import (
    AS_FILED,
    DENSE,
    Asked,
    Form,
    forms_of,
    main_form,
    num_bytes,
)

Types = tuple[tuple[str, str], ...]
"""Names of a file's tensors and the types it has them in."""


@dataclass(frozen=True, slots=True)
class OpenedModel:
    """One model, ready to be loaded. Immutable; may cross threads.

    `fingerprint` tells models apart whose KV must never be mixed. `files` are read for tensors.
    `has_interleaved_rope` says that the rows of rotated heads come in pairs, not in halves,
    `has_norms_less_one` that norms multiply by one more than the numbers in their tensors.
    `license` and `title` are the file's own words, untrusted.
    """

    name: str
    source: Path
    config: DecoderConfig
    chat: ChatFormat
    fingerprint: str
    files: tuple[SourceFile, ...]
    places: Mapping[str, TensorPlace]
    has_interleaved_rope: bool
    title: str = ""
    license: str = ""
    has_norms_less_one: bool = False

    @property
    def num_parameters(self) -> int:
        """Numbers in all tensors the decoder uses."""
        return count_parameters(self.config)

    @property
    def file_bytes(self) -> int:
        """Bytes of the weights on disk."""
        return sum(place.num_bytes for place in self.places.values())

    @property
    def file_form(self) -> Form:
        """The form that most of the layers' matrices have where they stay as the file has them."""
        return file_form(self.config, self._types)

    def weight_bytes(self, element_bytes: int, weights: Asked = DENSE) -> int:
        """Bytes the weights take: `element_bytes` for each number of what stays dense."""
        return bytes_in_form(self.config, self._types, element_bytes, weights)

    @property
    def _types(self) -> Types:
        return types_of(self.places)


def types_of(places: Mapping[str, TensorPlace]) -> Types:
    """Return the types that a file has its tensors in, by their names."""
    return tuple((name, place.type) for name, place in places.items())


def file_form(config: DecoderConfig, types: Types) -> Form:
    """Return the form that most of the layers' matrices have as a file has them."""
    return _sized(config, types, AS_FILED, 2)[1]


def bytes_in_form(config: DecoderConfig, types: Types, element_bytes: int, weights: Asked) -> int:
    """Return the bytes of all weights in a form, as `OpenedModel.weight_bytes` does."""
    return _sized(config, types, weights, element_bytes)[0]


@lru_cache(maxsize=256)  # to find what fits it is asked hundreds of times
def _sized(
    config: DecoderConfig, types: Types, weights: Asked, element_bytes: int
) -> tuple[int, Form]:
    layout = tensor_layout(config)
    forms = forms_of(layout, dict(types), weights)
    total = sum(num_bytes(fused, forms[fused.name], element_bytes) for fused in layout)
    return total, main_form(layout, forms)


@lru_cache(maxsize=64)  # to find what fits it is asked hundreds of times
def count_parameters(config: DecoderConfig) -> int:
    """Return the numbers in all tensors that a decoder of `config` uses."""
    return sum(math.prod(fused.shape) for fused in tensor_layout(config))
