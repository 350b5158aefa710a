"""Completions: the scripts run in the shells there are; what is offered exists, nothing is made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.cli.completions import SHELLS, VARIABLE
from localpaged.store.store import Store
from testkit.commands import call
from testkit.past_chats import write_chat

HOSTILE = "A\x1b]52;c;aGk=\x07\n\t$(touch x) `id` 'q\" \u202e"
COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
_localpaged_completion localpaged
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in PATH with the program as it would be installed."""
    folder = tmp_path / "bin"
    folder.mkdir()
    script = folder / "localpaged"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m localpaged "$@"\n')
    script.chmod(0o700)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    return folder


def completed_in_bash(tmp_path: Path, *words: str) -> list[str]:
    script = tmp_path / "completions.bash"
    script.write_text(call("completions", "bash").out)
    done = subprocess.run(
        ["bash", "--norc", "-c", COMPLETE, "bash", str(script), "localpaged", *words],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def offered(kind: str, *words: str) -> str:
    """What the program answers to a shell's script."""
    environment = {
        VARIABLE: f"{kind}_complete",
        "COMP_WORDS": " ".join(["localpaged", *words]),
        "COMP_CWORD": words[-1] if kind == "fish" else str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "localpaged"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_options_choices_and_models(listed_home, program, tmp_path):
    (paths.models_dir() / "second.gguf").touch()
    assert completed_in_bash(tmp_path, "hi") == ["history"]
    assert "--temperature" in completed_in_bash(tmp_path, "ask", "--te")
    assert completed_in_bash(tmp_path, "completions", "z") == ["zsh"]
    assert completed_in_bash(tmp_path, "ask", "--model", "s") == ["second", "smollm2-135m-instruct"]
    assert completed_in_bash(tmp_path, "compare", "-m", "sec") == ["second"]
    assert completed_in_bash(tmp_path, "models", "rm", "sec") == ["second"]


def test_endpoints_of_the_config_file_are_models_too(listed_home):
    paths.ensure_private_dir(paths.config_file().parent)
    paths.config_file().write_text('[remote.sea-box]\nurl = "http://localhost:9/v1"\n')
    assert offered("bash", "ask", "-m", "sea") == "plain,sea-box"
    paths.config_file().write_text("no toml [")
    assert offered("bash", "ask", "-m", "s") == "plain,smollm2-135m-instruct"


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_chats_by_id_and_nothing_of_them_is_run(listed_home, program, tmp_path):
    chat_id = write_chat([("q", "a")], title=HOSTILE)
    (found,) = completed_in_bash(tmp_path, "history", "show", chat_id[:4])
    assert chat_id.startswith(found) and call("history", "show", found).code == 0
    assert not (Path.cwd() / "x").exists()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_titles_stand_beside_the_ids_and_act_on_nothing(listed_home, shell):
    chat_id = write_chat([("q", "a")], title=HOSTILE)
    lines = offered(shell, "history", "show", chat_id[:4])
    assert chat_id[:10] in lines and "$(touch x)" in lines
    assert "\x1b" not in lines and "\u202e" not in lines
    assert len(lines.rstrip("\n").split("\n")) == (3 if shell == "zsh" else 1)


def test_deleted_chats_are_offered_to_who_brings_them_back(listed_home):
    chat_id = write_chat([("q", "a")], title="Fruit")
    assert call("history", "rm", "--yes", chat_id).code == 0
    assert offered("bash", "history", "show", chat_id[:4]) == ""
    assert chat_id[:10] in offered("bash", "history", "rm", "--undo", chat_id[:4])


def test_chats_are_found_while_the_history_is_open_elsewhere(listed_home):
    chat_id = write_chat([("q", "a")], title="Fruit")
    elsewhere = Store.open()
    try:
        assert chat_id[:10] in offered("bash", "history", "show", "fruit")
    finally:
        elsewhere.close()


@pytest.mark.parametrize("spoil", [b"", b"no database" * 500])
def test_nothing_is_made_and_nothing_is_said_where_nothing_can_be_read(home, spoil):
    assert offered("bash", "history", "show", "") == offered("bash", "models", "info", "") == ""
    assert not home.exists() or not list(home.rglob("*"))
    paths.ensure_private_dir(paths.data_dir())
    paths.database_file().write_bytes(spoil)
    before = sorted(home.rglob("*"))
    assert offered("bash", "history", "show", "") == ""
    assert sorted(home.rglob("*")) == before


def test_completing_makes_no_file_beside_a_history(listed_home, home):
    write_chat([("q", "a")], title="Fruit")
    before = sorted(home.rglob("*"))
    assert offered("bash", "history", "show", "") != ""
    assert sorted(home.rglob("*")) == before


def test_completing_loads_nothing_heavy(listed_home):
    write_chat([("q", "a")], title="Fruit")
    code = (
        "import os, sys; sys.argv[0] = 'localpaged'\n"
        f"os.environ.update({{'{VARIABLE}': 'bash_complete', 'COMP_CWORD': '3',"
        " 'COMP_WORDS': 'localpaged history show 0'})\n"
        "from localpaged.cli.main import main\n"
        "try: main([], prog_name='localpaged')\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stdout.split())
    assert "sqlite3" in loaded
    assert not loaded & {"sqlite_utils", "numpy", "torch", "textual", "transformers", "jinja2"}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_script_is_of_its_shell_and_names_the_program(shell):
    done = call("completions", shell)
    assert done.code == 0 and VARIABLE in done.out
    assert f"{shell}_complete" in done.out
    if shutil.which(shell) and shell != "fish":
        subprocess.run([shell, "-n"], input=done.out, text=True, check=True, timeout=30)


def test_a_shell_that_is_not_known_is_told():
    done = call("completions", "tcsh")
    assert done.code == 2 and "tcsh" in done.err
