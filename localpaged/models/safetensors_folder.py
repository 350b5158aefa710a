"""Finds the tensors of a safetensors folder: one file, or the shards that its index names.

Only files that the index names are read, and of them only the tensors it assigns to them, so a
stray file or a duplicate never replaces good weights. Every shard is checked to be whole.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from localpaged.errors import BadModelFile, UnsupportedModel
from localpaged.models.tensor_layout import TensorPlace
from localpaged.plain_text import visible

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
MAX_HEADER_BYTES = 32 * 2**20
MAX_INDEX_BYTES = 32 * 2**20
DTYPES = ("F32", "F16", "BF16")
ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2, "I8": 1, "U8": 1}

_FETCH_HINT = "Fetch the model again, all of its files."


def safetensors_places(folder: Path) -> Mapping[str, TensorPlace]:
    """Return the place of every tensor of the model in `folder`.

    Raises BadModelFile for missing, cut and damaged files, UnsupportedModel for other formats.
    """
    if (index := folder / INDEX).is_file():
        return _sharded(folder, _weight_map(index))
    if (single := folder / SINGLE).is_file():
        return safetensors_file_places(single)
    others = [name for name in ("pytorch_model.bin", "tf_model.h5") if (folder / name).exists()]
    if others:
        raise UnsupportedModel(
            f"{_shown(folder)} has its weights in {others[0]}, not in safetensors files.",
            hint="Fetch a version of the model with .safetensors files.",
        )
    raise BadModelFile(f"{_shown(folder)} has no {SINGLE} and no {INDEX}.", hint=_FETCH_HINT)


def _weight_map(index: Path) -> dict[str, str]:
    if index.stat().st_size > MAX_INDEX_BYTES:
        raise BadModelFile(f"{_shown(index)} is too large for an index.", hint=_FETCH_HINT)
    content = _json_object(index.read_bytes(), index)
    weight_map = content.get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise BadModelFile(f"{_shown(index)} has no weight map.", hint=_FETCH_HINT)
    for shard in weight_map.values():
        if not isinstance(shard, str) or PurePosixPath(shard).name != shard or shard in ("", ".."):
            raise BadModelFile(
                f"{_shown(index)} names the file {visible(str(shard))} outside its folder.",
                hint="Do not use this model: a plain one keeps its shards in one folder.",
            )
    return weight_map


def _sharded(folder: Path, weight_map: Mapping[str, str]) -> dict[str, TensorPlace]:
    shards = {}
    for shard in sorted(set(weight_map.values())):
        if not (folder / shard).is_file():
            raise BadModelFile(f"{_shown(folder)} lacks {visible(shard)}.", hint=_FETCH_HINT)
        shards[shard] = safetensors_file_places(folder / shard)
    places = {}
    for name, shard in weight_map.items():
        if name not in shards[shard]:
            raise BadModelFile(
                f"{_shown(folder / shard)} lacks the tensor {visible(name)} that the index "
                "promises.",
                hint=_FETCH_HINT,
            )
        places[name] = shards[shard][name]
    return places


def safetensors_file_places(
    path: Path, *, dtypes: Sequence[str] = DTYPES
) -> dict[str, TensorPlace]:
    """Return the place of every tensor of one file, all of `dtypes`.

    Raises OSError, BadModelFile for a file that is cut or damaged, UnsupportedModel for a dtype.
    """
    header, data_start, file_bytes = _header(path)
    places = {}
    end_of_data = data_start
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        place = _place(path, name, entry, data_start, dtypes)
        places[name] = place
        end_of_data = max(end_of_data, place.offset + place.num_bytes)
    if end_of_data > file_bytes:
        raise _incomplete(path, end_of_data, file_bytes)
    return places


def _header(path: Path) -> tuple[dict[str, Any], int, int]:
    """Return the JSON header of `path`, where its data begins and how long the file is."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadModelFile(f"{_shown(path)} is not a regular file.", hint=_FETCH_HINT)
        length = int.from_bytes(file.read(8), "little")
        if status.st_size < 8 or length > MAX_HEADER_BYTES:
            raise BadModelFile(
                f"{_shown(path)} is not a safetensors file: it claims a header of {length:,} "
                f"bytes in {status.st_size:,}.",
                hint=_FETCH_HINT,
            )
        if 8 + length > status.st_size:
            raise _incomplete(path, 8 + length, status.st_size)
        return _json_object(file.read(length), path), 8 + length, status.st_size


def _place(
    path: Path, name: str, entry: Any, data_start: int, dtypes: Sequence[str]
) -> TensorPlace:
    try:
        dtype, shape = str(entry["dtype"]), tuple(entry["shape"])
        start, end = entry["data_offsets"]
        numbers = (start, end, *shape)
        is_sound = all(type(number) is int and number >= 0 for number in numbers)
    except (KeyError, TypeError, ValueError):
        is_sound = False
    if not is_sound:
        raise BadModelFile(
            f"{_shown(path)}: the entry of the tensor {visible(name)} is damaged.",
            hint=_FETCH_HINT,
        )
    if dtype not in dtypes:
        raise UnsupportedModel(
            f"{_shown(path)}: the tensor {visible(name)} has the type {visible(dtype)}; "
            f"{', '.join(dtypes)} are read.",
            hint="Choose a version of the model that is not quantised, or a GGUF file.",
        )
    num_bytes = ITEM_BYTES[dtype]
    for size in shape:
        num_bytes *= size
    if end - start != num_bytes:
        raise BadModelFile(
            f"{_shown(path)}: the tensor {visible(name)} of shape {list(shape)} has "
            f"{end - start:,} bytes, not {num_bytes:,}.",
            hint=_FETCH_HINT,
        )
    return TensorPlace(path, name, dtype, shape, data_start + start, num_bytes)


def _json_object(content: bytes, path: Path) -> dict[str, Any]:
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise BadModelFile(f"{_shown(path)} holds no JSON object.", hint=_FETCH_HINT)
    return parsed


def _incomplete(path: Path, expected_bytes: int, file_bytes: int) -> BadModelFile:
    return BadModelFile(
        f"{_shown(path)} is incomplete: expected {expected_bytes:,} bytes, have {file_bytes:,}.",
        hint="The download or copy was cut off: fetch the model again.",
    )


def _shown(path: Path) -> str:
    return visible(str(path))
