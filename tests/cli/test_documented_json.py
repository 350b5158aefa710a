"""What --json prints has the fields that the help tells, and no others."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from localpaged import paths
from testkit.commands import call
from testkit.past_chats import write_chat
from testkit.tiny_model import save_tiny_model

HOSTILE = "\x1b]52;c;aGk=\x07 [b]\u202e needle"


def told(*command: str) -> set[str]:
    """The names in the part of the help that tells of --json."""
    text = call(*command, "--help").out.partition("of --json:")[2].partition("Options:")[0]
    lines = [line for line in text.splitlines() if re.match(r"\s{4}[a-z_]", line)]
    # the names stand before the first gap of two cells
    return set(re.findall(r"[a-z_]+", " ".join(re.split(r"\s{2,}", x.strip())[0] for x in lines)))


@pytest.fixture
def model(home: Path, tmp_path: Path) -> str:
    folder = save_tiny_model(tmp_path / "tiny", "llama")
    pulled = json.loads(call("models", "pull", str(folder), "--name", "tiny", "--json").out)
    assert pulled == {"name": "tiny", "path": str(folder)}
    return "tiny"


def test_models(model, home):
    (line,) = json.loads(call("models", "list", "--json").out)
    assert set(line) == told("models", "list")
    info = json.loads(call("models", "info", model, "--json").out)
    assert set(info) == told("models", "info")


def test_chats(home):
    chat_id = write_chat([("about [needles]", HOSTILE)], title=HOSTILE)
    (chat,) = json.loads(call("history", "list", "--json").out)
    assert set(chat) == told("history", "list")
    found = json.loads(call("history", "search", "needle", "--json").out)
    assert set(found) == {"hits", "is_cut", "num_unindexed"} <= told("history", "search")
    assert all(set(hit) <= told_of_hits() for hit in found["hits"])
    shown = json.loads(call("history", "show", chat_id, "--json").out)
    assert shown["format"] == "localpaged-chats"
    written = call("history", "export", chat_id, "--format", "json").out
    assert json.loads(written)["chats"] == shown["chats"]
    (home / "in.json").write_text(written)
    imported = json.loads(call("history", "import", str(home / "in.json"), "--json").out)
    assert set(imported) == told("history", "import")


def told_of_hits() -> set[str]:
    return set(re.findall(r"[a-z_]+", call("history", "search", "--help").out))


def test_paths_and_config(home):
    assert set(json.loads(call("paths", "--json").out)) >= {"backups_dir", "kv_dir", "socket_dir"}
    config = json.loads(call("config", "--json").out)
    assert set(config) == {"config_file", "settings"}
    assert all(set(row) == {"name", "value", "source"} for row in config["settings"])


def test_json_is_ascii_so_that_nothing_acts_on_a_terminal(home):
    write_chat([("q", HOSTILE)], title=HOSTILE)
    for command in (("history", "list"), ("history", "search", "needle")):
        assert call(*command, "--json").out.isascii()
    assert paths.database_file().exists()
