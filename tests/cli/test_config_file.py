"""The config file: what it may say, what goes before it, and how mistakes in it are told."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from localpaged import paths, wiring
from localpaged.config_file import read_config
from localpaged.config_schema import KEYS, SECTIONS
from testkit.commands import assert_refused, call

ESC = "\x1b"


@pytest.fixture
def write_config(home: Path):
    def write(text: str | bytes) -> Path:
        path = paths.config_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def sources(*options: str) -> dict[str, tuple[object, str]]:
    done = call("config", "--json", *options)
    assert done.code == 0, done.err
    return {row["name"]: (row["value"], row["source"]) for row in json.loads(done.out)["settings"]}


def test_a_missing_file_is_all_defaults():
    config = read_config()
    assert not config.given
    assert all(source == "default" for _, source in sources().values())


def test_the_template_is_a_config_file_with_every_key(write_config):
    template = call("config", "--template").out
    write_config(template)
    assert not read_config().given
    live = "\n".join(line.removeprefix("# ") for line in template.splitlines()[2:] if "=" in line)
    for key in KEYS:
        assert f"{key.name} = {key.example}" in live
    assert [line for line in template.splitlines() if line.startswith("[")] == [
        f"[{section}]" for section in SECTIONS
    ]


def test_every_example_of_the_template_is_possible(write_config):
    text = ""
    for section in SECTIONS:
        keys = [key for key in KEYS if key.section == section]
        text += f"[{section}]\n" + "".join(
            f"{key.name} = {key.example}\n" for key in keys if key.name != "threads"
        )
    write_config(text)
    assert len(read_config().given) == len(KEYS) - 1


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(
    write_config, monkeypatch
):
    write_config('[engine]\nkv_memory = "64M"\ncontext = 128\nmodel = "of-the-file"\n')
    monkeypatch.setenv("LOCALPAGED_CONTEXT", "256")
    monkeypatch.setenv("LOCALPAGED_MODEL", "of-the-environment")
    found = sources("--model", "of-the-line")
    assert found["engine.model"] == ("of-the-line", "command line")
    assert found["engine.context"] == (256, "LOCALPAGED_CONTEXT")
    assert found["engine.kv_memory"] == (64 << 20, "config file")
    assert found["engine.dtype"] == ("auto", "default")


def test_sampling_of_the_file_reaches_the_engine_unless_the_command_line_says_otherwise(
    write_config, answer_with
):
    write_config('[sampling]\ntemperature = 0.75\ntop_k = 9\nstop = ["\\n\\n"]\ndry = true\n')
    runs = answer_with(["ok"])
    assert call("ask", "--top-k", "4", "Hi").code == 0
    sampling = runs.requests[0].sampling
    assert (sampling.temperature, sampling.top_k, sampling.stop) == (0.75, 4, ("\n\n",))
    assert sampling.dry is not None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[engine]\nmodell = 'x'", ["engine.modell", "did you mean model?"]),
        ("[sampling]\ntemprature = 1", ["sampling.temprature", "did you mean temperature?"]),
        ("[uii]\nascii = true", ["'uii'", "did you mean ui?"]),
        ("model = 'x'", ["'model'"]),
        ("[sampling]\ntemperature = 'warm'", ["sampling.temperature must be a number", "'warm'"]),
        ("[sampling]\ntemperature = true", ["sampling.temperature must be a number", "True"]),
        ("[sampling]\ntemperature = nan", ["temperature must be from 0 to 100", "nan"]),
        ("[sampling]\ntop_p = 2", ["top_p must be above 0 to 1", "2"]),
        ("[sampling]\nseed = 1.5", ["sampling.seed must be a whole number"]),
        ("[sampling]\nstop = 'x'", ["sampling.stop must be a list of texts"]),
        ("[sampling]\ndry = 'yes'", ["sampling.dry must be true, false or a multiplier"]),
        ("[sampling]\ndry = -1", ["sampling.dry", "multiplier"]),
        ("[engine]\nkv_memory = 'much'", ["engine.kv_memory must be a size such as 512M"]),
        ("[engine]\nkv_dtype = 'int3'", ["engine.kv_dtype must be one of auto, float32"]),
        ("[engine]\ncontext = 1", ["engine: A context of 1 tokens"]),
        ("[ui]\ntheme = 'pink'", ["ui.theme must be one of dark, light"]),
        ("[ui]\nwidth = 3", ["ui.width must be 0 or at least 20"]),
        ("ui = 3", ["ui must be a section, written [ui]"]),
        ("[engine]\nmodel = 'a'\nmodel = 'b'", ["this is not TOML"]),
        ("[ui]\n\n[engine\n", ["this is not TOML", "line 3"]),
        (b"[ui]\n# \xff\xfe\n", ["line 2 is not UTF-8"]),
        ("ui = " + "[" * 5_000, ["this is not TOML"]),
        ('[engine]\n"\\u001b[31m[red]" = 1', ["engine.␛[31m[red]"]),
        ("x = '" + "y" * (1 << 16) + "'", ["longer than 65,536 bytes"]),
    ],
)
@pytest.mark.parametrize("command", [("ask", "Hi"), ("config",)])
def test_a_mistake_is_one_sentence_with_file_and_key(
    write_config, monkeypatch, command, text, parts
):
    monkeypatch.setattr(wiring, "open_service", None)
    path = write_config(text)
    done = call(*command)
    assert_refused(done, 2, str(path), *parts)
    assert ESC not in done.err


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused_without_waiting(home, make):
    path = paths.config_file()
    path.parent.mkdir(parents=True)
    make(path)
    assert_refused(call("config"), 2, "config.toml", "not a file")


def test_a_byte_order_mark_is_no_mistake(write_config):
    write_config(b"\xef\xbb\xbf[ui]\nascii = true\n")
    assert read_config().ui.ascii


def test_the_config_command_is_read_by_people_and_programs(write_config):
    path = write_config("[sampling]\nseed = 7\n[keymap]\nhelp = 'f9'\n")
    shown = call("config").out
    assert str(path) in shown
    assert any(
        line.split() == ["sampling.seed", "7", "config", "file"] for line in shown.splitlines()
    )
    assert sources()["keymap.help"] == ("f9", "config file")


def test_paths_are_told_and_nothing_is_made(home):
    found = json.loads(call("paths", "--json").out)
    assert found["config_file"] == str(home / "config" / "config.toml")
    assert set(found) >= {"database_file", "models_dir", "log_file", "cache_dir", "state_dir"}
    assert "not there yet" in call("paths").out
    assert list(home.iterdir()) == []


def test_tomllib_agrees_that_the_template_is_toml():
    assert set(tomllib.loads(call("config", "--template").out)) == set(SECTIONS)
