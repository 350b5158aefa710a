"""KV files: written whole, compared bit by bit, kept within a budget, gone with their chat."""

from __future__ import annotations

import errno
import json
import os
import time
from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open

from localpaged.kv_files import budget, users
from localpaged.kv_files import folder as folder_module
from localpaged.kv_files.folder import KVFolder, NoSpace, name_of
from localpaged.kv_files.identity import KVIdentity, Part
from localpaged.kv_files.names import Digests, chain, parse_name
from localpaged.kv_files.segment import Segment, Unusable, decode, encode

IDENTITY = KVIdentity(
    (("weights", "abc"), ("compute", "int8")),
    4,
    (Part("numbers", "I8", 1, 2, (4, 2, 1, 3)), Part("scales", "F32", 4, 2, (4, 2, 1))),
    max_segment_blocks=3,
)
BLOCK = 4


def make_segment(ids=range(20), num_blocks: int = 2) -> Segment:
    parts = tuple(
        memoryview(bytes(i % 251 for i in range(part.block_bytes * num_blocks)))
        for part in IDENTITY.parts
    )
    return Segment(tuple(ids), num_blocks, parts)


def as_file(segment: Segment) -> bytes:
    return b"".join(encode(segment, IDENTITY))


def is_same(one: Segment, other: Segment) -> bool:
    return (one.ids, one.num_blocks) == (other.ids, other.num_blocks) and all(
        bytes(a) == bytes(b) for a, b in zip(one.parts, other.parts, strict=True)
    )


def test_a_file_is_a_safetensors_file(tmp_path):
    path = tmp_path / "file.safetensors"
    path.write_bytes(as_file(make_segment()))
    with safe_open(path, "numpy") as file:
        assert file.metadata()["compute"] == "int8"
        assert file.get_tensor("token_ids").tolist() == list(range(20))
        assert file.get_tensor("numbers").shape == (2, 2, 4, 2, 1, 3)
        assert file.get_tensor("scales").dtype == "float32"


def test_what_was_written_is_read():
    segment = make_segment()
    assert is_same(decode(memoryview(as_file(segment)), IDENTITY), segment)


@settings(max_examples=400)
@given(data=st.data())
def test_any_bit_that_is_turned_and_any_cut_is_noticed(data):
    content = bytearray(as_file(make_segment()))
    if data.draw(st.booleans()):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    elif data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        content += data.draw(st.binary(min_size=1, max_size=9))
    with pytest.raises(Unusable):
        decode(memoryview(content), IDENTITY)


@settings(max_examples=200)
@given(
    header=st.binary(max_size=300), length=st.integers(0, 2**64 - 1), rest=st.binary(max_size=99)
)
def test_a_hostile_header_costs_nothing(header, length, rest):
    for size in (length, len(header)):
        with pytest.raises(Unusable):
            decode(memoryview(size.to_bytes(8, "little") + header + rest), IDENTITY)


@pytest.mark.parametrize(
    "metadata",
    [
        [],
        {"num_tokens": "9" * 5_000},
        {"num_tokens": "20", "num_blocks": "-2", "checksum": "0" * 64},
        {"num_tokens": "99999999999", "num_blocks": "2", "checksum": "0" * 64},
        {"num_tokens": "20", "num_blocks": "2", "checksum": {"a": 1}},
    ],
)
def test_a_header_that_makes_no_sense_is_refused(metadata):
    header = json.dumps({"__metadata__": metadata}).encode()
    with pytest.raises(Unusable):
        decode(memoryview(len(header).to_bytes(8, "little") + header), IDENTITY)


@pytest.mark.parametrize("fact", ["weights", "compute"])
def test_every_fact_makes_another_folder_and_another_file(fact):
    facts = tuple((name, "other" if name == fact else value) for name, value in IDENTITY.facts)
    other = replace(IDENTITY, facts=facts)
    assert other.fingerprint != IDENTITY.fingerprint
    with pytest.raises(Unusable, match="of another computation"):
        decode(memoryview(as_file(make_segment())), other)
    for change in ({"block_size": 8}, {"parts": IDENTITY.parts[:1]}, {"max_segment_blocks": 2}):
        assert replace(IDENTITY, **change).fingerprint != IDENTITY.fingerprint


def test_another_version_is_told(monkeypatch):
    content = as_file(make_segment()).replace(b"localpaged-kv-1", b"localpaged-kv-0")
    with pytest.raises(Unusable, match="another version"):
        decode(memoryview(content), IDENTITY)


@given(
    ids=st.lists(st.integers(0, 2**31 - 1), max_size=60),
    cut=st.integers(0, 60),
)
def test_digests_depend_on_every_token(ids, cut):
    cut = min(cut, len(ids))
    assert Digests(IDENTITY, ids).at(cut) == Digests(IDENTITY, ids[:cut]).at(cut)
    if cut:
        changed = [*ids[: cut - 1], ids[cut - 1] ^ 1, *ids[cut:]]
        assert Digests(IDENTITY, changed).at(cut) != Digests(IDENTITY, ids).at(cut)


class Folder:
    def __init__(self, root: Path) -> None:
        self.kv = KVFolder(IDENTITY, root)

    def write(self, ids, num_blocks: int = 2):
        return self.kv.write(make_segment(ids, num_blocks))

    def chain(self, ids) -> list[int]:
        ids = tuple(ids)
        found = chain(self.kv.index(), Digests(IDENTITY, ids), IDENTITY, num_tokens=len(ids))
        return [name.num_blocks for name in found]


@pytest.fixture
def folder(tmp_path) -> Folder:
    return Folder(tmp_path / "kv" / "v1")


def test_names_are_an_index(folder):
    folder.write(range(12), 3)
    folder.write(range(24), 3)
    folder.write(range(32), 2)
    folder.write([*range(12), *range(50, 58)], 2)

    assert folder.chain(range(40)) == [3, 3, 2]
    assert folder.chain(range(31)) == [3, 3]
    assert folder.chain([*range(12), *range(50, 60)]) == [3, 2]
    assert folder.chain([7, *range(1, 40)]) == []


def test_what_is_no_name_of_ours_is_left_alone(folder):
    folder.write(range(12), 3)
    for name in ("notes.txt", "a-b-01.safetensors", "..", f"{'0' * 32}-{'0' * 32}-00.safetensors"):
        assert parse_name(name) is None
    (folder.kv.path / "notes.txt").write_text("mine")
    assert folder.chain(range(12)) == [3]
    assert budget.sweep(folder.kv.root, budget_bytes=0) == 1
    assert (folder.kv.path / "notes.txt").exists()


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "other name", "empty"])
def test_what_is_no_file_of_ours_is_not_read(folder, kind, tmp_path):
    name = folder.write(range(12), 3)
    path = folder.kv.path / name.text
    content = path.read_bytes()
    path.unlink()
    if kind == "link":
        (tmp_path / "elsewhere").write_bytes(content)
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        path.write_bytes(as_file(make_segment(range(20), 2)))
    with pytest.raises((Unusable, OSError)):
        folder.kv.read(name)


def test_a_write_that_fails_leaves_nothing(folder, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        folder.write(range(12), 3)
    assert list(folder.kv.path.iterdir()) == []


def test_the_last_of_a_disk_is_left_to_others(folder, monkeypatch):
    monkeypatch.setattr(folder_module, "MIN_FREE_BYTES", 1 << 62)
    with pytest.raises(NoSpace):
        folder.write(range(12), 3)


def test_what_was_used_least_recently_goes_first_and_ends_before_beginnings(folder):
    names = [folder.write(range(12), 3), folder.write(range(24), 3)]
    other = folder.write(range(100, 112), 3)
    now_ns = time.time_ns()
    folder.kv.touch([other], now_ns=now_ns - 10)
    folder.kv.touch(names, now_ns=now_ns)
    size = (folder.kv.path / other.text).stat().st_size

    assert budget.sweep(folder.kv.root, budget_bytes=int(size * 2.5)) == 1
    assert folder.chain(range(100, 112)) == []
    assert budget.sweep(folder.kv.root, budget_bytes=int(size * 1.5)) == 1
    assert folder.chain(range(24)) == [3]
    assert budget.used_bytes(folder.kv.root) < size * 1.5


def test_what_was_left_half_written_is_removed(folder):
    folder.write(range(12), 3)
    new, old = (folder.kv.path / f"{number}-0.part" for number in (1, 2))
    for path in (new, old):
        path.write_bytes(b"half")
    os.utime(old, (1, 1))
    budget.sweep(folder.kv.root, budget_bytes=1 << 30)
    assert new.exists() and not old.exists()


def test_a_chat_takes_its_files_along_but_not_those_of_others(folder):
    shared, mine, theirs = folder.write(range(12), 3), folder.write(range(24), 3), None
    theirs = folder.write([*range(12), *range(50, 58)], 2)
    root, path = folder.kv.root, folder.kv.path
    users.note(root, "mine", [path / shared.text])
    users.note(root, "mine", [path / shared.text, path / mine.text])
    users.note(root, "their's/../[x]", [path / shared.text, path / theirs.text])

    assert users.forget(root, "mine") == 1
    assert not (path / mine.text).exists()
    assert (path / shared.text).exists()
    assert users.noted_chats(root) == ["their's/../[x]"]
    assert users.forget(root, "unknown") == 0
    assert users.forget(root, "their's/../[x]") == 2
    assert folder.kv.index() == {}


def test_a_list_of_files_leads_nowhere_else(folder, tmp_path):
    precious = tmp_path / "precious.safetensors"
    precious.write_text("mine")
    folder.write(range(12), 3)
    root = folder.kv.root
    users.note(root, "chat", [folder.kv.path / "none.safetensors"])
    (listed,) = (root / users.CHATS).glob("*.json")
    for content in (
        json.dumps({"chat": "chat", "files": ["../../precious.safetensors", 7, "../x"]}),
        '{"chat": "chat", "files": 7}',
        "[" * 100_000,
        "nonsense",
    ):
        listed.write_text(content)
        users.forget(root, "chat")
    assert precious.exists()


def test_lists_whose_files_are_gone_go_too(folder):
    name = folder.write(range(12), 3)
    root = folder.kv.root
    users.note(root, "chat", [folder.kv.path / name.text])
    users.prune(root)
    assert users.noted_chats(root) == ["chat"]
    folder.kv.remove(name)
    users.prune(root)
    assert users.noted_chats(root) == []


def test_a_name_is_made_of_the_tokens():
    segment = make_segment(range(20), 2)
    name = name_of(segment, IDENTITY)
    assert parse_name(name.text) == name
    assert name_of(replace(segment, ids=(1, *range(1, 20))), IDENTITY) != name
    assert array("i").itemsize == 4
