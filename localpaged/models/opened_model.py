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

    def weight_bytes(self, element_bytes: int) -> int:
        """Bytes the weights take in memory at `element_bytes` for each number."""
        return self.num_parameters * element_bytes


@lru_cache(maxsize=64)  # to find what fits it is asked hundreds of times
def count_parameters(config: DecoderConfig) -> int:
    """Return the numbers in all tensors that a decoder of `config` uses."""
    return sum(math.prod(fused.shape) for fused in tensor_layout(config))
