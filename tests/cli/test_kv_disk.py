"""`--kv-disk`: how much KV files may take, from the command line, the environment and the file."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from localpaged import paths
from localpaged.cli.main import main
from localpaged.cli.options import settings_from
from localpaged.config import DEFAULT_KV_DISK_BYTES
from localpaged.config_file import read_config
from localpaged.errors import ConfigError
from localpaged.kv_files.folder import kv_root


def told(*arguments: str) -> tuple[object, str]:
    result = CliRunner().invoke(main, ["config", "--json", *arguments])
    assert result.exit_code == 0, result.output
    rows = {row["name"]: row for row in json.loads(result.stdout)["settings"]}
    return rows["engine.kv_disk"]["value"], rows["engine.kv_disk"]["source"]


def test_it_is_on_unless_it_is_said_otherwise(home):
    assert told() == ("2G", "default")
    assert settings_from({}).kv_disk_bytes == DEFAULT_KV_DISK_BYTES == 2 << 30


@pytest.mark.parametrize(("text", "num_bytes"), [("0", 0), ("512M", 512 << 20), ("1.5G", 3 << 29)])
def test_sizes_and_nothing_are_understood_everywhere(home, monkeypatch, text, num_bytes):
    assert told("--kv-disk", text) == (num_bytes, "command line")
    monkeypatch.setenv("LOCALPAGED_KV_DISK", text)
    assert told() == (num_bytes, "LOCALPAGED_KV_DISK")
    monkeypatch.delenv("LOCALPAGED_KV_DISK")
    for written in (f'"{text}"', num_bytes):
        write_config(f"kv_disk = {written}")
        assert told() == (num_bytes, "config file")
        assert settings_from({}).kv_disk_bytes == num_bytes


@pytest.mark.parametrize("written", ['"none"', "-1", "true", '"2 apples"', "[]"])
def test_what_is_no_size_is_refused_with_the_key(home, written):
    write_config(f"kv_disk = {written}")
    with pytest.raises(ConfigError, match=r"engine\.kv_disk must be 0 or a size"):
        read_config()


def test_the_command_line_refuses_what_is_no_size(home):
    result = CliRunner().invoke(main, ["config", "--kv-disk", "much"])
    assert result.exit_code == 2


def test_paths_tells_where_kv_files_are(home):
    result = CliRunner().invoke(main, ["paths", "--json"])
    assert json.loads(result.stdout)["kv_dir"] == str(kv_root())


def write_config(line: str) -> None:
    paths.ensure_private_dir(paths.config_dir())
    paths.config_file().write_text(f"[engine]\n{line}\n")
