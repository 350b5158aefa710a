"""What `models list` and `models info` show of a model, as plain values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from localpaged.errors import ModelError
from localpaged.models.catalogue import PACKAGED_MODELS
from localpaged.models.open_model import model_record
from localpaged.models.opened_model import count_parameters
from localpaged.models.registry import ModelEntry

KV_ELEMENT_BYTES = 2


@dataclass(frozen=True, slots=True)
class ModelLine:
    """One line of the list; `problem` says why the model cannot be used, None if it can."""

    name: str
    path: Path
    origin: str
    is_owned: bool
    format: str
    file_bytes: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """Everything about one model that opening it tells. Texts are untrusted.

    `types` counts tensors by their type; `kv_bytes_per_token` is for 16-bit KV.
    """

    name: str
    title: str
    path: Path
    origin: str
    format: str
    architecture: str
    parameters: int
    file_bytes: int
    types: dict[str, int]
    context_length: int
    vocab_size: int
    layers: int
    kv_bytes_per_token: int
    has_chat_template: bool
    license: str


def model_line(entry: ModelEntry) -> ModelLine:
    """Describe `entry` for the list; a model that cannot be opened is described all the same."""
    problem = None
    file_bytes = 0
    try:
        record = model_record(entry.path)
        file_bytes = sum(file.num_bytes for file in record.files)
    except ModelError as error:
        problem = error.message
    return ModelLine(
        name=entry.name,
        path=entry.path,
        origin=entry.origin,
        is_owned=entry.is_owned,
        format=_format(entry.path),
        file_bytes=file_bytes,
        problem=problem,
    )


def model_summary(entry: ModelEntry) -> ModelSummary:
    """Describe the model of `entry`; raises what opening it raises."""
    record = model_record(entry.path)
    config = record.config
    packaged = PACKAGED_MODELS.get(entry.name) if entry.is_owned else None
    return ModelSummary(
        name=entry.name,
        title=record.title,
        path=entry.path,
        origin=entry.origin,
        format=_format(entry.path),
        architecture=config.architecture,
        parameters=count_parameters(config),
        file_bytes=sum(file.num_bytes for file in record.files),
        types=dict(Counter(place.type for place in record.places.values()).most_common()),
        context_length=config.context_length,
        vocab_size=config.vocab_size,
        layers=config.num_layers,
        kv_bytes_per_token=config.kv_bytes_per_token(KV_ELEMENT_BYTES),
        has_chat_template=record.tokenizer.chat_template is not None,
        license=record.license or (packaged.license if packaged else ""),
    )


def _format(path: Path) -> str:
    return "safetensors" if path.is_dir() else "gguf"
