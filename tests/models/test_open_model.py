"""Opening is light, remembers what it found, and never trusts what it remembers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from localpaged import paths
from localpaged.errors import BadModelFile, LocalPagedError, ModelNotFound
from localpaged.models import open_model as module
from localpaged.models.gguf_file import GgufHeader, read_gguf_header
from localpaged.models.open_model import open_model
from localpaged.models.registry import add_entry
from testkit.gguf_files import save_tiny_gguf
from testkit.tiny_model import save_tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from localpaged.models.opened_model import OpenedModel

REPOSITORY = Path(__file__).parents[2]


def cache_entry() -> Path:
    (entry,) = (paths.cache_dir() / "models").iterdir()
    return entry


def described(opened: OpenedModel) -> tuple[object, ...]:
    chat = opened.chat
    return (
        opened.config,
        opened.fingerprint,
        opened.files,
        dict(opened.places),
        opened.has_interleaved_rope,
        chat.token_bytes,
        chat.eos_ids,
        chat.encode("the quick <|im_end|>"),
    )


@pytest.fixture
def no_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: Path) -> None:
        raise AssertionError(f"{path} is parsed again")

    monkeypatch.setattr(module, "_gguf_record", fail)
    monkeypatch.setattr(module, "_folder_record", fail)


def test_the_second_time_nothing_is_parsed(tmp_path: Path, request: pytest.FixtureRequest):
    sources = [save_tiny_gguf(tmp_path, "llama3-rope"), save_tiny_model(tmp_path / "f", "qwen3")]
    first = [described(open_model(source)) for source in sources]

    request.getfixturevalue("no_parsing")

    assert [described(open_model(source)) for source in sources] == first


@pytest.mark.parametrize("change", ["content", "time", "other file of the folder"])
def test_a_changed_model_is_parsed_again(tmp_path: Path, change: str):
    folder = save_tiny_model(tmp_path / "tiny", "llama")
    before = open_model(folder)
    if change == "content":
        shutil.rmtree(folder)
        save_tiny_model(folder, "llama", max_position_embeddings=256)
    elif change == "time":
        os.utime(folder / "model.safetensors", ns=(1, 1))
    else:
        (folder / "chat_template.jinja").write_text("{{ messages[0].content }}")

    after = open_model(folder)

    assert after.fingerprint != before.fingerprint
    assert len(list((paths.cache_dir() / "models").iterdir())) == 1
    if change == "content":
        assert after.config.context_length == 256


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[: len(content) // 2],
        lambda content: content[:-1],
        lambda content: b"",
        lambda content: content.replace(b'"vocab_size": 320', b'"vocab_size": 321'),
        lambda content: content.replace(b"localpaged-model-", b"localpaged-model-0"),
        lambda content: b"[]\n" + content,
        lambda content: b"{}\n",
        lambda content: b'{"record_bytes": 1}\n' + content,
        lambda content: b"[" * 100_000 + b"\n",
        lambda content: bytes(len(content)),
    ],
)
def test_a_damaged_cache_entry_is_made_again(tmp_path: Path, damage: Callable[[bytes], bytes]):
    path = save_tiny_gguf(tmp_path, "llama")
    expected = described(open_model(path))
    whole = cache_entry().read_bytes()
    assert damage(whole) != whole
    cache_entry().write_bytes(damage(whole))

    assert described(open_model(path)) == expected
    assert cache_entry().read_bytes() == whole


def test_the_cache_can_be_deleted_or_unwritable(tmp_path: Path, home: Path):
    path = save_tiny_gguf(tmp_path, "llama")
    expected = described(open_model(path))
    shutil.rmtree(home / "cache")
    assert described(open_model(path)) == expected

    shutil.rmtree(home / "cache")
    (home / "cache").write_text("a file where the folder should be")

    assert described(open_model(path)) == expected


def test_the_cache_is_for_its_owner_alone(tmp_path: Path):
    open_model(save_tiny_gguf(tmp_path, "llama"))

    assert cache_entry().parent.stat().st_mode & 0o077 == 0
    assert cache_entry().stat().st_mode & 0o077 == 0


def test_a_model_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = save_tiny_gguf(tmp_path, "llama")
    longer = save_tiny_gguf(tmp_path / "other", "llama", max_position_embeddings=1_024)

    def read_then_replace(source: Path) -> GgufHeader:
        header = read_gguf_header(source)
        longer.replace(path)
        return header

    monkeypatch.setattr(module, "read_gguf_header", read_then_replace)
    open_model(path)
    monkeypatch.setattr(module, "read_gguf_header", read_gguf_header)

    assert open_model(path).config.context_length == 1_024


def test_links_that_lead_nowhere_are_no_part_of_a_folder(tmp_path: Path):
    folder = save_tiny_model(tmp_path / "tiny", "llama")
    (folder / "gone").symlink_to(tmp_path / "nowhere")

    assert open_model(folder).config.num_layers == 3


def test_a_disk_error_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module, "_gguf_record", fail)

    with pytest.raises(BadModelFile, match=r"llama-f32\.gguf cannot be read: Permission denied"):
        open_model(save_tiny_gguf(tmp_path, "llama"))


def test_models_with_other_weights_have_other_fingerprints(tmp_path: Path):
    path = save_tiny_gguf(tmp_path, "llama")
    os.utime(path, ns=(5, 5))
    first = open_model(path).fingerprint
    content = bytearray(path.read_bytes())
    content[-4:] = b"\0\0\0\0"
    path.write_bytes(content)
    os.utime(path, ns=(6, 6))

    assert open_model(path).fingerprint != first


def test_a_name_that_is_no_text_opens_like_any_and_is_remembered(
    tmp_path: Path, request: pytest.FixtureRequest
):
    path = tmp_path / "\udcff\udcfe[b].gguf"
    save_tiny_gguf(tmp_path, "llama").rename(path)
    first = open_model(path)
    request.getfixturevalue("no_parsing")

    assert described(open_model(path)) == described(first)
    assert (first.name, first.source) == ("\ufffd\ufffd[b]", path)


def test_a_model_opens_by_its_name(tmp_path: Path):
    path = save_tiny_gguf(tmp_path, "llama")
    add_entry("tiny", path, origin="test")

    opened = open_model("tiny")

    assert (opened.name, opened.chat.name, opened.source) == ("tiny", "tiny", path)
    assert opened.chat.context_length == opened.config.context_length == 512
    assert open_model(str(path)).name == "llama-f32"


@pytest.mark.parametrize("wanted", ["none", "../none.gguf", "", "\x1b[2J", "a" * 5_000])
def test_an_unknown_model_is_not_found(wanted: str):
    with pytest.raises(LocalPagedError) as caught:
        open_model(wanted)

    assert "\x1b" not in caught.value.message


def test_a_registered_model_that_is_gone_is_not_found(tmp_path: Path):
    add_entry("gone", tmp_path / "gone.gguf", origin="test")

    with pytest.raises(ModelNotFound, match=r"gone\.gguf"):
        open_model("gone")


def run_python(code: str, home: Path) -> str:
    environment = {**os.environ, "LOCALPAGED_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return result.stdout


OPEN = """
import sys, time
from localpaged.models.gguf_file import GgufHeader, read_gguf_header
from localpaged.models.open_model import open_model
from localpaged.prompt import PromptMessage
opened = open_model({path!r})
opened.chat.render([PromptMessage("user", "hi")])
print(*(set(sys.modules) & {{"torch", "transformers", "gguf", "numpy", "textual"}}))
"""


def test_opening_loads_no_heavy_library(tmp_path: Path, home: Path):
    gguf = OPEN.format(path=str(save_tiny_gguf(tmp_path, "llama")))
    folder = save_tiny_model(tmp_path / "folder", "llama")

    assert set(run_python(gguf, home).split()) <= {"numpy", "gguf"}
    assert run_python(gguf, home).split() == []
    open_model(folder)
    assert run_python(OPEN.format(path=str(folder)), home).split() == []


@pytest.mark.model
def test_the_default_model_opens_fast(default_model: Path):
    def opening_s() -> float:
        started = time.process_time()
        open_model(default_model)
        return time.process_time() - started

    assert opening_s() < 1.0
    assert min(opening_s() for _ in range(3)) < 0.25
