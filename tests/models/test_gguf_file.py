"""GGUF headers are read exactly and believed in nothing."""

from __future__ import annotations

import os
import struct
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from localpaged.errors import BadModelFile, ModelNotFound, UnsupportedModel
from localpaged.models.gguf_file import GgufHeader, read_gguf_header
from testkit import gguf_files as make

if TYPE_CHECKING:
    from pathlib import Path

MIB = 2**20


def nested_arrays(depth: int) -> bytes:
    return make.entry("k", make.ARRAY, struct.pack("<IQ", make.ARRAY, 1) * depth)


ARCHITECTURE = make.text_entry("general.architecture", "llama")
DAMAGED: dict[str, dict[str, Any]] = {
    "2**63 entries": {"num_entries": 2**63},
    "2**63 tensors": {"num_tensors": 2**63},
    "string of 2**40 bytes": {
        "entries": [make.entry("k", make.STRING, make.string("v", length=2**40))]
    },
    "key of 2**40 bytes": {"entries": [make.string("k", length=2**40)]},
    "array of 2**40 numbers": {
        "entries": [make.entry("k", make.ARRAY, struct.pack("<IQ", make.UINT32, 2**40))]
    },
    "array of 2**62 strings": {
        "entries": [make.entry("k", make.ARRAY, struct.pack("<IQ", make.STRING, 2**62))]
    },
    "array of 2**19 strings in 100 bytes": {
        "entries": [make.entry("k", make.ARRAY, struct.pack("<IQ", make.STRING, 2**19))]
    },
    "long string in an array": {
        "entries": [
            make.entry(
                "k", make.ARRAY, struct.pack("<IQ", make.STRING, 1) + make.string("", length=2**50)
            )
        ]
    },
    "arrays 100,000 deep": {"entries": [nested_arrays(100_000)]},
    "array of an unknown type": {
        "entries": [make.entry("k", make.ARRAY, struct.pack("<IQ", 77, 1) + b"\0" * 8)]
    },
    "unknown value type": {"entries": [make.entry("k", 13, b"\0" * 8)]},
    "boolean 2": {"entries": [make.entry("k", make.BOOL, b"\2")]},
    "key that is not UTF-8": {"entries": [make.entry(b"\xff\xfe", make.BOOL, b"\1")]},
    "text that is not UTF-8": {"entries": [make.entry("k", make.STRING, make.string(b"\xc3\x28"))]},
    "array text that is not UTF-8": {
        "entries": [
            make.entry("k", make.ARRAY, struct.pack("<IQ", 8, 1) + make.string(b"\xc3\x28"))
        ]
    },
    "duplicate key": {"entries": [ARCHITECTURE, ARCHITECTURE]},
    "2**32-1 dimensions": {"tensors": [make.tensor_entry("t", [8], num_dimensions=2**32 - 1)]},
    "no dimensions": {"tensors": [make.tensor_entry("t", [])]},
    "an empty dimension": {"tensors": [make.tensor_entry("t", [0, 4])]},
    "product that wraps 64 bits": {"tensors": [make.tensor_entry("t", [2**42 + 1, 2**22])]},
    "size of 2**64-1": {"tensors": [make.tensor_entry("t", [2**64 - 1])]},
    "row that is no whole block": {"tensors": [make.tensor_entry("t", [48], type_=2)]},
    "duplicate tensor": {"tensors": [make.tensor_entry("t", [4]), make.tensor_entry("t", [4])]},
    "overlapping tensors": {
        "tensors": [make.tensor_entry("a", [32]), make.tensor_entry("b", [32], offset=64)],
        "data": bytes(256),
    },
    "offset past the end": {"tensors": [make.tensor_entry("t", [4], offset=2**40)]},
    "offset of 2**64-32": {"tensors": [make.tensor_entry("t", [4], offset=2**64 - 32)]},
    "offset that is not aligned": {"tensors": [make.tensor_entry("t", [4], offset=4)]},
    "tensor name of 2**20 bytes": {"tensors": [make.tensor_entry("t" * 2**20, [4])]},
    "alignment 0": {"entries": [make.u32_entry("general.alignment", 0)]},
    "alignment 3": {"entries": [make.u32_entry("general.alignment", 3)]},
    "alignment 2**30": {"entries": [make.u32_entry("general.alignment", 2**30)]},
    "alignment that is a text": {"entries": [make.text_entry("general.alignment", "32")]},
}


@pytest.mark.parametrize("header", DAMAGED.values(), ids=DAMAGED.keys())
def test_a_crafted_header_is_refused_at_once_and_cheaply(tmp_path: Path, header: dict[str, Any]):
    path = make.write_header(tmp_path / "crafted.gguf", **header)
    read_gguf_header(make.write_header(tmp_path / "warm-up.gguf"))
    started = time.monotonic()
    tracemalloc.start()

    with pytest.raises(BadModelFile) as caught:
        read_gguf_header(path)

    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.monotonic() - started < 1
    assert peak_bytes < 100 * MIB
    assert "crafted.gguf" in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 500
    assert caught.value.hint


def test_a_header_of_too_many_strings_is_refused_before_they_are_made(tmp_path: Path):
    strings = make.string("") * 2**20
    entries = [
        make.entry("a", make.ARRAY, struct.pack("<IQ", make.STRING, 2**20) + strings),
        make.entry("b", make.ARRAY, struct.pack("<IQ", make.STRING, 2**20) + strings),
    ]
    path = make.write_header(tmp_path / "many.gguf", entries=entries)

    with pytest.raises(BadModelFile, match="counts 1,048,576 items"):
        read_gguf_header(path)


def test_a_header_larger_than_the_limit_is_refused(tmp_path: Path):
    numbers = struct.pack("<IQ", make.UINT32, 10 * MIB) + bytes(40 * MIB)
    path = make.write_header(tmp_path / "huge.gguf", entries=[make.entry("k", 9, numbers)])

    with pytest.raises(UnsupportedModel, match="header of more than"):
        read_gguf_header(path)


@pytest.mark.parametrize("version", [0, 1, 4, 99])
def test_an_unknown_version_is_named(tmp_path: Path, version: int):
    path = make.write_header(tmp_path / "v.gguf", version=version)

    with pytest.raises(UnsupportedModel, match=f"version {version};"):
        read_gguf_header(path)


def test_a_big_endian_file_is_told_as_one(tmp_path: Path):
    path = tmp_path / "big.gguf"
    path.write_bytes(b"GGUF" + struct.pack(">IQQ", 3, 0, 0))

    with pytest.raises(UnsupportedModel, match="big-endian"):
        read_gguf_header(path)


def test_a_tensor_of_an_unknown_type_is_named(tmp_path: Path):
    path = make.write_header(
        tmp_path / "t.gguf", tensors=[make.tensor_entry("blk.0.attn_q.weight", [32], type_=99)]
    )

    with pytest.raises(UnsupportedModel, match=r"blk\.0\.attn_q\.weight .*type 99"):
        read_gguf_header(path)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"<!DOCTYPE html><html>404</html>" * 10, "is not a GGUF file"),
        (b"PK\x03\x04" + bytes(100), "is not a GGUF file"),
        (bytes(100), "is empty"),
        (b"", "is empty"),
        (b"GGUF\x03\0\0", "is incomplete"),
    ],
    ids=["web page", "zip", "zeros", "nothing", "seven bytes"],
)
def test_other_content_is_not_a_gguf_file(tmp_path: Path, content: bytes, sentence: str):
    path = tmp_path / "page.gguf"
    path.write_bytes(content)

    with pytest.raises(BadModelFile, match=sentence):
        read_gguf_header(path)


def test_a_pipe_is_not_waited_for(tmp_path: Path):
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)

    with pytest.raises(BadModelFile, match="not a regular file"):
        read_gguf_header(pipe)


def test_a_folder_is_not_a_file(tmp_path: Path):
    with pytest.raises(BadModelFile, match="not a regular file"):
        read_gguf_header(tmp_path)


def test_a_missing_file_is_not_found(tmp_path: Path):
    with pytest.raises(ModelNotFound, match="no file"):
        read_gguf_header(tmp_path / "none.gguf")


@pytest.mark.parametrize("kept", [0.999, 0.6, 0.0], ids=["99.9 %", "60 %", "header only"])
def test_a_cut_file_says_what_is_expected_and_what_is_there(tmp_path: Path, kept: float):
    path = make.save_tiny_gguf(tmp_path, "llama")
    whole_bytes = path.stat().st_size
    data_start = min(tensor.offset for tensor in read_gguf_header(path).tensors.values())
    os.truncate(path, data_start + int((whole_bytes - data_start) * kept))

    with pytest.raises(BadModelFile) as caught:
        read_gguf_header(path)

    assert f"incomplete: expected {whole_bytes:,} bytes, have {path.stat().st_size:,}" in str(
        caught.value
    )


def test_a_file_cut_inside_its_header_is_incomplete(tmp_path: Path):
    path = make.save_tiny_gguf(tmp_path, "llama")
    os.truncate(path, 4_000)

    with pytest.raises(BadModelFile, match="incomplete"):
        read_gguf_header(path)


def test_control_characters_of_names_are_shown_as_marks(tmp_path: Path):
    path = make.write_header(
        tmp_path / "esc\x1b[2J.gguf", tensors=[make.tensor_entry("t\x1b]0;x\x07", [8], type_=99)]
    )

    with pytest.raises(UnsupportedModel) as caught:
        read_gguf_header(path)

    assert "\x1b" not in caught.value.message
    assert "\x07" not in caught.value.message


@pytest.mark.parametrize("version", [2, 3])
def test_every_kind_of_value_is_read(tmp_path: Path, version: int):
    packed = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 10: "<Q", 11: "<q"}
    packed[12] = "<d"
    entries = []
    for type_, code in packed.items():
        pair = struct.pack(f"<IQ2{code[1]}", type_, 2, 1, 2)
        entries.append(make.entry(f"n{type_}", type_, struct.pack(code, 7)))
        entries.append(make.entry(f"a{type_}", make.ARRAY, pair))
    grid = struct.pack("<IQIQ2i", make.ARRAY, 1, 5, 2, -1, 1)
    entries += [
        make.entry("flag", make.BOOL, b"\1"),
        make.entry("flags", make.ARRAY, struct.pack("<IQ", make.BOOL, 2) + b"\1\0"),
        make.text_entry("text", "Grüße"),
        make.entry("texts", make.ARRAY, struct.pack("<IQ", 8, 2) + make.string("a") * 2),
        make.entry("grid", make.ARRAY, grid),
    ]
    path = make.write_header(tmp_path / "values.gguf", version=version, entries=entries)

    metadata = read_gguf_header(path).metadata

    assert all(metadata[f"n{type_}"] == 7 for type_ in packed)
    assert all(list(metadata[f"a{type_}"]) == [1, 2] for type_ in packed)  # type: ignore[arg-type]
    assert metadata["flag"] is True
    assert metadata["flags"] == (True, False)
    assert metadata["text"] == "Grüße"
    assert metadata["texts"] == ["a", "a"]
    assert [list(row) for row in metadata["grid"]] == [[-1, 1]]  # type: ignore[union-attr, arg-type]


def assert_library_agrees(reader: Any, header: GgufHeader) -> None:
    fields = {key: field for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    assert list(fields) == list(header.metadata)
    for key, field in fields.items():
        expected, found = field.contents(), header.metadata[key]
        assert (list(found) if isinstance(expected, list) else found) == expected, key  # type: ignore[arg-type]
    assert [tensor.name for tensor in reader.tensors] == list(header.tensors)
    for tensor in reader.tensors:
        found_tensor = header.tensors[tensor.name]
        assert found_tensor.shape == tuple(reversed([int(size) for size in tensor.shape]))
        assert found_tensor.type_id == int(tensor.tensor_type)
        assert found_tensor.offset == int(tensor.data_offset)
        assert found_tensor.num_bytes == int(tensor.n_bytes)


@pytest.mark.parametrize("quantisation", ["F32", "Q8_0", "BF16"])
@pytest.mark.parametrize("family", ["llama3-rope", "qwen2", "qwen3"])
def test_the_library_reads_the_same_from_written_files(
    tmp_path: Path, family: str, quantisation: str
):
    from gguf import GGUFReader

    path = make.save_tiny_gguf(tmp_path, family, quantisation=quantisation)

    assert_library_agrees(GGUFReader(path), read_gguf_header(path))


@pytest.mark.model
def test_the_library_reads_the_same_from_the_default_model(
    default_model: Path, default_reader: Any
):
    assert_library_agrees(default_reader, read_gguf_header(default_model))


@pytest.mark.model
def test_the_default_models_header_is_read_fast(default_model: Path):
    read_gguf_header(default_model)
    times_s = []
    for _ in range(5):
        started = time.process_time()
        read_gguf_header(default_model)
        times_s.append(time.process_time() - started)

    assert min(times_s) < 0.15
