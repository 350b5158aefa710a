"""What opening a model finds out, as plain data: made from its files, kept in the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from localpaged.decoder_config import DecoderConfig, LinearRopeScaling, Llama3RopeScaling
from localpaged.models.tensor_files import SourceFile
from localpaged.models.tensor_layout import TensorPlace
from localpaged.models.tokenizer_data import ControlToken, TokenizerData


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """Everything about a model that its files say and its weights do not."""

    config: DecoderConfig
    tokenizer: TokenizerData
    files: tuple[SourceFile, ...]
    places: Mapping[str, TensorPlace]
    fingerprint: str
    has_interleaved_rope: bool
    title: str = ""
    license: str = ""
    has_norms_less_one: bool = False


def record_to_json(record: ModelRecord) -> dict[str, Any]:
    """Return `record` as JSON values, without the tokenizer's own JSON."""
    numbers = {str(file.path): index for index, file in enumerate(record.files)}
    tokenizer = asdict(record.tokenizer)
    del tokenizer["text_tokenizer"]
    return {
        "config": asdict(record.config),
        "tokenizer": tokenizer,
        "files": [[str(file.path), file.num_bytes, file.mtime_ns] for file in record.files],
        "places": [
            [source, numbers[str(place.file)], place.name, place.type, place.shape, place.offset,
             place.num_bytes]
            for source, place in record.places.items()
        ],
        "fingerprint": record.fingerprint,
        "has_interleaved_rope": record.has_interleaved_rope,
        "title": record.title,
        "license": record.license,
        "has_norms_less_one": record.has_norms_less_one,
    }  # fmt: skip


def record_from_json(content: dict[str, Any], *, text_tokenizer: str) -> ModelRecord:
    """Rebuild what `record_to_json` made; raises KeyError, TypeError or ValueError for others."""
    config = dict(content["config"])
    if (scaling := config["rope_scaling"]) is not None:
        kind = LinearRopeScaling if scaling.keys() == {"factor"} else Llama3RopeScaling
        config["rope_scaling"] = kind(**scaling)
    for name in ("full_layers", "unrotated_layers"):
        config[name] = tuple(config[name])
    tokenizer = dict(content["tokenizer"])
    tokenizer["controls"] = tuple(ControlToken(**control) for control in tokenizer["controls"])
    for name in ("unused_ids", "eos_ids"):
        tokenizer[name] = tuple(tokenizer[name])
    files = tuple(
        SourceFile(Path(path), num_bytes, mtime_ns)
        for path, num_bytes, mtime_ns in content["files"]
    )
    places = {
        source: TensorPlace(files[number].path, name, type_, tuple(shape), offset, num_bytes)
        for source, number, name, type_, shape, offset, num_bytes in content["places"]
    }
    return ModelRecord(
        config=DecoderConfig(**config),
        tokenizer=TokenizerData(text_tokenizer=text_tokenizer, **tokenizer),
        files=files,
        places=places,
        fingerprint=content["fingerprint"],
        has_interleaved_rope=content["has_interleaved_rope"],
        title=content["title"],
        license=content["license"],
        has_norms_less_one=content["has_norms_less_one"],
    )
