"""Every kind of source becomes a named model, or a clear sentence and no entry."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from localpaged.errors import (
    BadModelFile,
    ConfigError,
    ModelError,
    ModelNotFound,
    ModelOffline,
    UnsupportedModel,
)
from localpaged.models import pull as module
from localpaged.models.open_model import open_model
from localpaged.models.pull import pull_model
from localpaged.models.pull_hub import HUB_ID, fetch_from_hub
from localpaged.models.registry import list_entries
from testkit.gguf_files import save_tiny_gguf
from testkit.tiny_model import save_tiny_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

COMMIT = "c0ffee" + "0" * 34


def pull(source: str | Path, **options: Any) -> Any:
    return pull_model(str(source), on_progress=lambda *_: None, **options)


def names() -> list[str]:
    return [entry.name for entry in list_entries()]


def test_a_local_gguf_file_is_listed_by_reference(tmp_path: Path):
    path = save_tiny_gguf(tmp_path, "llama")

    entry = pull(path)

    assert (entry.name, entry.path, entry.is_owned) == ("llama-f32", path, False)
    assert open_model("llama-f32").source == path


def test_a_local_folder_is_listed_under_a_given_name(tmp_path: Path):
    folder = save_tiny_model(tmp_path / "Some Folder", "qwen3")

    assert pull(folder).name == "some-folder"
    assert pull(folder, name="mine").path == folder
    assert names() == ["mine", "some-folder"]


@pytest.mark.parametrize("kind", ["page", "folder", "cut"])
def test_what_cannot_be_opened_is_not_listed(tmp_path: Path, kind: str):
    if kind == "page":
        path = tmp_path / "page.gguf"
        path.write_bytes(b"<html>")
    elif kind == "folder":
        path = tmp_path
    else:
        path = save_tiny_gguf(tmp_path, "llama")
        path.write_bytes(path.read_bytes()[:-1_000])

    with pytest.raises(BadModelFile):
        pull(path)

    assert names() == []


@pytest.mark.parametrize("source", ["nonsense", "", "a/b/c", "../x", "/etc/none", "a" * 5_000])
def test_a_source_that_is_nothing_is_not_found(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelNotFound) as refused:
        pull(source)
    assert "org/name from Hugging Face" in refused.value.hint


@pytest.mark.parametrize("name", ["../evil", "", "x\x1b"])
def test_an_unusable_name_is_refused_before_anything_is_done(tmp_path: Path, name: str):
    with pytest.raises(ConfigError):
        pull(save_tiny_gguf(tmp_path, "llama"), name=name)


def test_a_packaged_model_keeps_its_name():
    with pytest.raises(ConfigError, match="keeps its own name"):
        pull("smollm2-135m-instruct", name="other")


@pytest.mark.parametrize(
    ("text", "is_id"),
    [
        ("org/name", True),
        ("org/na.me-1_B", True),
        ("org/name/file.gguf", True),
        ("org/name/deep/file.gguf", True),
        ("org/name/file.bin", False),
        ("org", False),
        ("/org/name", False),
        ("../name", False),
        ("org/name\n", False),
    ],
)
def test_hugging_face_ids_are_told_from_names(text: str, is_id: bool):
    assert bool(HUB_ID.fullmatch(text)) == is_id


class FakeHub(BaseHTTPRequestHandler):
    """Serves the files of `files` as the repository org/name, as the hub does."""

    files: dict[str, bytes]
    status: int

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass

    def _answer(self, *, with_body: bool) -> None:
        path = self.path.partition("?")[0]
        if self.status != 200:
            self._send(
                self.status, b"", {"X-Error-Code": "GatedRepo"} if self.status == 403 else {}
            )
        elif path.startswith("/api/models/org/name/tree/"):
            tree = [
                {"type": "file", "path": name, "size": len(content), "oid": name}
                for name, content in self.files.items()
            ]
            self._send(200, json.dumps(tree).encode(), {})
        elif path.startswith("/api/models/org/name"):
            siblings = [{"rfilename": name} for name in self.files]
            answer = {"id": "org/name", "sha": COMMIT, "siblings": siblings}
            self._send(200, json.dumps(answer).encode(), {})
        elif (name := path.rpartition("/")[2]) in self.files and path.startswith("/org/name/"):
            headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{name}"'}
            self._send(200, self.files[name], headers, with_body=with_body)
        elif path.startswith("/org/name/"):
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
        else:
            self._send(404, b"", {"X-Error-Code": "RepoNotFound"})

    def _send(
        self, status: int, body: bytes, headers: dict[str, str], *, with_body: bool = True
    ) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


Serve = "Callable[..., dict[str, Any]]"


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., dict[str, Any]]]:
    """Start a hub on this machine; return what `fetch_from_hub` needs to use it."""
    servers = []

    def start(files: dict[str, bytes], *, status: int = 200) -> dict[str, Any]:
        handler = type("Hub", (FakeHub,), {"files": files, "status": status})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        return {"endpoint": address, "cache": tmp_path / "hub"}

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_hub_folder_is_fetched_without_what_is_not_needed(
    tmp_path: Path, serve: Callable[..., dict[str, Any]]
):
    files = files_of(save_tiny_model(tmp_path / "tiny", "llama"))
    hub = serve({**files, "pytorch_model.bin": b"x", "README.md": b"x"})

    folder = fetch_from_hub("org/name", **hub)

    assert set(files_of(folder)) == set(files)
    assert open_model(folder).config.num_layers == 3


def test_a_hub_file_is_fetched_alone(tmp_path: Path, serve: Callable[..., dict[str, Any]]):
    content = save_tiny_gguf(tmp_path, "llama").read_bytes()

    path = fetch_from_hub("org/name/tiny.gguf", **serve({"tiny.gguf": content, "b.gguf": b""}))

    assert path.read_bytes() == content
    assert open_model(path).name == "tiny"


@pytest.mark.parametrize(
    ("hub_id", "status", "error", "sentence"),
    [
        ("other/name", 200, ModelNotFound, "Hugging Face has no other/name"),
        ("org/name/none.gguf", 200, ModelNotFound, "Hugging Face has no"),
        ("org/name", 403, ModelNotFound, "accepted its licence"),
        ("org/name", 404, ModelError, "404 Not Found"),
        ("org/name", 500, ModelError, "500 Internal"),
    ],
)
def test_what_the_hub_refuses_is_one_sentence(
    serve: Callable[..., dict[str, Any]],
    hub_id: str,
    status: int,
    error: type[ModelError],
    sentence: str,
):
    with pytest.raises(error, match=sentence) as caught:
        fetch_from_hub(hub_id, **serve({"config.json": b"{}"}, status=status))

    assert "\n" not in caught.value.message
    assert caught.value.hint


def test_a_hub_that_does_not_answer_is_offline(
    tmp_path: Path, serve: Callable[..., dict[str, Any]]
):
    hub = serve({})
    hub["endpoint"] = "http://127.0.0.1:9"

    with pytest.raises(ModelOffline, match="does not answer"):
        fetch_from_hub("org/name", **hub)


def test_a_fetched_model_is_listed_with_its_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = save_tiny_model(tmp_path / "snapshot", "llama")
    monkeypatch.setattr(module, "fetch_from_hub", lambda hub_id: folder)

    entry = pull("Some-Org/Tiny_Llama")

    assert (entry.name, entry.origin, entry.path) == ("tiny_llama", "Some-Org/Tiny_Llama", folder)


def test_a_fetched_model_that_does_not_run_is_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "config.json").write_text('{"model_type": "mixtral"}')
    monkeypatch.setattr(module, "fetch_from_hub", lambda hub_id: tmp_path)

    with pytest.raises(UnsupportedModel, match="mixtral"):
        pull("org/moe")

    assert names() == []
