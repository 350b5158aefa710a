"""Reads the header of a GGUF file: metadata and where each tensor lies.

Own code rather than the library's reader, which needs seconds for a vocabulary and trusts the
counts it finds. Type numbers and block sizes are the library's.
"""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from localpaged.errors import BadModelFile, ModelNotFound, UnsupportedModel
from localpaged.models.gguf_values import MAX_KEY_BYTES, Damaged, Short, Value, ValueReader
from localpaged.plain_text import visible

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MAGIC = b"GGUF"
VERSIONS = (2, 3)
MAX_HEADER_BYTES = 32 * 2**20
MAX_METADATA_ENTRIES = 4_096
MAX_TENSORS = 65_536
MAX_TENSOR_NAME_BYTES = 1_024
MAX_DIMENSIONS = 4
MAX_ALIGNMENT_BYTES = 2**20
DEFAULT_ALIGNMENT_BYTES = 32

_FIRST_READ_BYTES = 4 * 2**20
_DAMAGED_HINT = "Fetch the file again; it is damaged or was not made by a GGUF writer."
_CUT_HINT = "The download or copy was cut off: fetch the file again."


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor's place. `shape` has rows first; `offset` counts from the file's start."""

    name: str
    shape: tuple[int, ...]
    type_id: int
    offset: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """What a GGUF file says about itself; every tensor is known to lie inside the file."""

    path: Path
    file_bytes: int
    digest: str
    metadata: Mapping[str, Value]
    tensors: Mapping[str, GgufTensor]


def read_gguf_header(path: Path) -> GgufHeader:
    """Read and check the header of `path`.

    Raises ModelNotFound when there is no such file, BadModelFile when it is cut or damaged, and
    UnsupportedModel for versions, byte orders and tensor types that are not read here.
    """
    with _open_regular(path) as file:
        file_bytes = os.fstat(file.fileno()).st_size
        buffer = file.read(_FIRST_READ_BYTES)
        _check_preamble(path, buffer, file_bytes)
        while True:
            try:
                return _parse(path, buffer, file_bytes)
            except Short as short:
                if short.end > file_bytes:
                    raise _cut(path, short.end, file_bytes) from None
                if short.end > MAX_HEADER_BYTES:
                    raise UnsupportedModel(
                        f"{_shown(path)} has a header of more than {MAX_HEADER_BYTES:,} bytes.",
                        hint="Models of this size of vocabulary are not supported.",
                    ) from None
                wanted = min(max(short.end, 4 * len(buffer)), MAX_HEADER_BYTES)
                if not (more := file.read(wanted - len(buffer))):
                    raise _cut(path, short.end, len(buffer)) from None
                buffer += more
            except Damaged as damage:
                message = f"{_shown(path)} is damaged: {visible(str(damage))}."
                raise BadModelFile(message, hint=_DAMAGED_HINT) from None


def type_name(type_id: int) -> str:
    """Return the name of a GGUF tensor type, or its number when it has none."""
    from gguf.constants import GGMLQuantizationType

    try:
        return str(GGMLQuantizationType(type_id).name)
    except ValueError:
        return f"number {type_id}"


def _open_regular(path: Path) -> BinaryIO:
    """Open `path` for reading without ever waiting on a pipe or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ModelNotFound(
            f"There is no file {_shown(path)}.", hint="`localpaged models list` shows what is here."
        ) from None
    except OSError as error:
        raise BadModelFile(
            f"{_shown(path)} cannot be read: {error.strerror}.", hint="Check its permissions."
        ) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise BadModelFile(
            f"{_shown(path)} is not a regular file.", hint="Give the path of a .gguf file."
        )
    return os.fdopen(descriptor, "rb")


def _check_preamble(path: Path, buffer: bytes, file_bytes: int) -> None:
    if buffer[:4] != MAGIC:
        message = f"{_shown(path)} is not a GGUF file."
        if not buffer.strip(b"\0"):
            raise BadModelFile(f"{_shown(path)} is empty.", hint=_CUT_HINT)
        if buffer.lstrip()[:1] == b"<":
            raise BadModelFile(message, hint="It holds a web page: the download went wrong.")
        raise BadModelFile(message, hint="Give a file that ends in .gguf and was made as one.")
    if len(buffer) < 24:
        raise _cut(path, 24, file_bytes)
    version = int.from_bytes(buffer[4:8], "little")
    if int.from_bytes(buffer[4:8], "big") in VERSIONS:
        raise UnsupportedModel(
            f"{_shown(path)} is a big-endian GGUF file.", hint="Fetch the little-endian one."
        )
    if version not in VERSIONS:
        raise UnsupportedModel(
            f"{_shown(path)} is GGUF version {version}; versions 2 and 3 are read.",
            hint="Convert the model again with a current converter.",
        )


def _parse(path: Path, buffer: bytes, file_bytes: int) -> GgufHeader:
    reader = ValueReader(buffer)
    reader.position = 8
    num_tensors, num_entries = reader.u64(), reader.u64()
    if num_entries > MAX_METADATA_ENTRIES:
        raise Damaged(f"it claims {num_entries:,} metadata entries")
    if num_tensors > MAX_TENSORS:
        raise Damaged(f"it claims {num_tensors:,} tensors")
    metadata: dict[str, Value] = {}
    for _ in range(num_entries):
        key = reader.text("a key", MAX_KEY_BYTES)
        if key in metadata:
            raise Damaged(f"the key {key!r} is there twice")
        metadata[key] = reader.value(f"the value of {key!r}")
    alignment = _alignment(metadata)
    entries = [_tensor_entry(reader) for _ in range(num_tensors)]
    data_start = -(-reader.position // alignment) * alignment
    tensors = _place(path, entries, data_start, alignment)
    _check_extent(path, tensors, file_bytes)
    digest = hashlib.blake2b(buffer[: reader.position], digest_size=16).hexdigest()
    return GgufHeader(path, file_bytes, digest, metadata, tensors)


def _alignment(metadata: Mapping[str, Value]) -> int:
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT_BYTES)
    if (
        not isinstance(alignment, int)
        or not 8 <= alignment <= MAX_ALIGNMENT_BYTES
        or alignment & (alignment - 1)
    ):
        raise Damaged(f"the alignment is {alignment!r}, not a power of two from 8 to 2^20")
    return alignment


def _tensor_entry(reader: ValueReader) -> tuple[str, tuple[int, ...], int, int]:
    name = reader.text("a tensor's name", MAX_TENSOR_NAME_BYTES)
    num_dimensions = reader.u32()
    if not 1 <= num_dimensions <= MAX_DIMENSIONS:
        raise Damaged(f"the tensor {name!r} has {num_dimensions:,} dimensions")
    # the file has the fastest running dimension first
    shape = tuple(reversed([reader.u64() for _ in range(num_dimensions)]))
    return name, shape, reader.u32(), reader.u64()


def _place(
    path: Path,
    entries: list[tuple[str, tuple[int, ...], int, int]],
    data_start: int,
    alignment: int,
) -> dict[str, GgufTensor]:
    from gguf.constants import GGML_QUANT_SIZES

    block_sizes = {int(type_id): sizes for type_id, sizes in GGML_QUANT_SIZES.items()}
    tensors: dict[str, GgufTensor] = {}
    for name, shape, type_id, offset in entries:
        if name in tensors:
            raise Damaged(f"the tensor {name!r} is there twice")
        if type_id not in block_sizes:
            raise UnsupportedModel(
                f"{_shown(path)}: the tensor {visible(name)} has the unknown type {type_id}.",
                hint="Choose another quantisation of this model, for example Q4_K_M or Q8_0.",
            )
        items_per_block, block_bytes = block_sizes[type_id]
        if not all(shape) or shape[-1] % items_per_block:
            raise Damaged(f"the tensor {name!r} of type {type_name(type_id)} has shape {shape}")
        if offset % alignment:
            raise Damaged(f"the tensor {name!r} is not aligned to {alignment} bytes")
        num_items = 1
        for size in shape:
            num_items *= size
        num_bytes = num_items // items_per_block * block_bytes
        tensors[name] = GgufTensor(name, shape, type_id, data_start + offset, num_bytes)
    return tensors


def _check_extent(path: Path, tensors: Mapping[str, GgufTensor], file_bytes: int) -> None:
    end_of_last = 0
    for tensor in sorted(tensors.values(), key=lambda tensor: tensor.offset):
        if tensor.offset < end_of_last:
            raise Damaged(f"the tensor {tensor.name!r} overlaps the one before it")
        end_of_last = tensor.offset + tensor.num_bytes
    if end_of_last > file_bytes:
        raise _cut(path, end_of_last, file_bytes)


def _cut(path: Path, expected_bytes: int, file_bytes: int) -> BadModelFile:
    return BadModelFile(
        f"{_shown(path)} is incomplete: expected {expected_bytes:,} bytes, have {file_bytes:,}.",
        hint=_CUT_HINT,
    )


def _shown(path: Path) -> str:
    return visible(str(path))
