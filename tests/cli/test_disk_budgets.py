"""`--kv-disk` and `--weights-disk`: how much files may take, by command line, environment, file."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from localpaged import paths
from localpaged.cli.main import main
from localpaged.cli.options import settings_from
from localpaged.config import DEFAULT_KV_DISK_BYTES, DEFAULT_WEIGHTS_DISK_BYTES
from localpaged.config_file import read_config
from localpaged.errors import ConfigError
from localpaged.kv_files.folder import kv_root
from localpaged.models.kept_weights import weights_root

KEYS = {
    "kv_disk": ("2G", DEFAULT_KV_DISK_BYTES, 2 << 30),
    "weights_disk": ("16G", DEFAULT_WEIGHTS_DISK_BYTES, 16 << 30),
}


def told(key: str, *arguments: str) -> tuple[object, str]:
    result = CliRunner().invoke(main, ["config", "--json", *arguments])
    assert result.exit_code == 0, result.output
    rows = {row["name"]: row for row in json.loads(result.stdout)["settings"]}
    return rows[f"engine.{key}"]["value"], rows[f"engine.{key}"]["source"]


@pytest.mark.parametrize("key", KEYS)
def test_it_is_on_unless_it_is_said_otherwise(home, key):
    text, default, num_bytes = KEYS[key]
    assert told(key) == (text, "default")
    assert getattr(settings_from({}), f"{key}_bytes") == default == num_bytes


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(("text", "num_bytes"), [("0", 0), ("512M", 512 << 20), ("1.5G", 3 << 29)])
def test_sizes_and_nothing_are_understood_everywhere(home, monkeypatch, key, text, num_bytes):
    assert told(key, option(key), text) == (num_bytes, "command line")
    variable = f"LOCALPAGED_{key.upper()}"
    monkeypatch.setenv(variable, text)
    assert told(key) == (num_bytes, variable)
    monkeypatch.delenv(variable)
    for written in (f'"{text}"', num_bytes):
        write_config(f"{key} = {written}")
        assert told(key) == (num_bytes, "config file")
        assert getattr(settings_from({}), f"{key}_bytes") == num_bytes


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("written", ['"none"', "-1", "true", '"2 apples"', "[]"])
def test_what_is_no_size_is_refused_with_the_key(home, key, written):
    write_config(f"{key} = {written}")
    with pytest.raises(ConfigError, match=rf"engine\.{key} must be 0 or a size"):
        read_config()


@pytest.mark.parametrize("key", KEYS)
def test_the_command_line_refuses_what_is_no_size(home, key):
    result = CliRunner().invoke(main, ["config", option(key), "much"])
    assert result.exit_code == 2


def test_paths_tells_where_the_files_are(home):
    found = json.loads(CliRunner().invoke(main, ["paths", "--json"]).stdout)
    assert (found["kv_dir"], found["weights_dir"]) == (str(kv_root()), str(weights_root()))


def option(key: str) -> str:
    return f"--{key.replace('_', '-')}"


def write_config(line: str) -> None:
    paths.ensure_private_dir(paths.config_dir())
    paths.config_file().write_text(f"[engine]\n{line}\n")
