"""The user's editor: how it is found, what it gets, and that no end of it loses the text."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import nullcontext
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.errors import ChatError, ConfigError, LocalPagedError
from localpaged.tui import editor
from localpaged.tui.editor import edited, editor_command
from testkit.screens import LARGE, open_service, stage
from testkit.scripted_engine import ScriptedEngine


@pytest.fixture
def editor_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make a program of Python lines the editor; `path` is the file it is given."""

    def editor_is(code: str, *arguments: str, name: str = "my editor") -> Path:
        program = tmp_path / name
        program.write_text(
            f"#!{sys.executable}\nimport os, sys\nfrom pathlib import Path\n"
            f"path = Path(sys.argv[-1])\n{code}\n"
        )
        program.chmod(0o700)
        monkeypatch.delenv("VISUAL", raising=False)
        # What is told of a longer name is shortened, and breaks where its length says.
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("EDITOR", " ".join([f"'./{name}'", *arguments]))
        return program

    return editor_is


def edit(text: str) -> str:
    return edited(text, suspended=nullcontext)


def test_the_file_is_the_owners_alone_has_the_text_and_is_gone_afterwards(editor_is, tmp_path):
    seen = tmp_path / "seen"
    editor_is(
        f"Path({str(seen)!r}).write_text(f'{{path.stat().st_mode & 0o777:o}} "
        "{path.parent.stat().st_mode & 0o777:o} {path} ' + path.read_text())\n"
        "Path(str(path) + '~').write_text('a copy')\npath.write_text('after\\n')"
    )
    assert edit("before") == "after"
    mode, folder_mode, path, text = seen.read_text().split(" ", 3)
    assert (mode, folder_mode, text) == ("600", "700", "before")
    assert path.endswith(".md")
    assert not Path(path).parent.exists()
    assert list(paths.state_dir().iterdir()) == []


def test_arguments_are_split_as_a_shell_does_and_nothing_is_run_by_one(editor_is, tmp_path):
    seen = tmp_path / "seen"
    editor_is(
        f"Path({str(seen)!r}).write_text('|'.join(sys.argv[1:-1]))", "-w", "'a b'", "';touch x'"
    )
    edit("text")
    assert seen.read_text() == "-w|a b|;touch x"
    assert not Path("x").exists()


def test_visual_goes_before_editor(monkeypatch):
    monkeypatch.setenv("VISUAL", "one")
    monkeypatch.setenv("EDITOR", "two")
    assert editor_command() == ["one"]


def test_without_a_setting_a_usual_editor_is_taken_or_none_is_told(monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "  ")
    monkeypatch.setattr(editor.shutil, "which", lambda name: name == "vi")
    assert editor_command() == ["vi"]
    monkeypatch.setattr(editor.shutil, "which", lambda name: None)
    with pytest.raises(ConfigError, match="EDITOR is not set"):
        editor_command()


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("sys.exit(3)", "ended with exit code 3"),
        ("os.kill(os.getpid(), 9)", "was ended by SIGKILL"),
        ("path.unlink()", "left no file"),
        ("path.unlink(); os.mkfifo(path)", "left no file"),
        ("path.write_bytes(b'x' * (1 << 25))", "left more than 16,777,216 bytes"),
    ],
)
def test_an_editor_that_did_not_end_well_is_told_in_one_sentence(editor_is, code, sentence):
    editor_is(f"path.write_text('lost'); {code}")
    with pytest.raises(ChatError, match=sentence) as raised:
        edit("before")
    assert "the text is as it was" in raised.value.message


@pytest.mark.parametrize("value", ["/nowhere/no-editor", "'/bin/vi", "/etc/passwd", "/tmp"])
def test_an_editor_that_cannot_be_started_is_told(value, monkeypatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", value)
    with pytest.raises(LocalPagedError) as raised:
        edit("before")
    assert raised.value.message.endswith(".")
    assert raised.value.hint


@pytest.mark.parametrize(
    ("before", "left", "after"),
    [
        ("a", b"a", "a"),
        ("a\r\nb\ud800", b"a\r\nb?", "a\r\nb\ud800"),
        ("a", b"b\r\nc\r\n", "b\nc"),
        ("a\n", b"b\n", "b\n"),
        ("a", b"\xff\x00\x1b[31m", "\ufffd\x00\x1b[31m"),
        ("a", b"", ""),
    ],
)
def test_what_the_editor_leaves_is_taken_exactly(editor_is, before, left, after):
    editor_is(f"path.write_bytes({left!r})")
    assert edit(before) == after


def test_an_interrupt_is_the_editors_business(editor_is):
    editor_is(
        "import signal; assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "os.kill(os.getppid(), signal.SIGINT); path.write_text('after')"
    )
    assert threading.current_thread() is threading.main_thread()
    assert edit("before") == "after"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


async def test_the_key_brings_the_text_of_the_editor_into_the_prompt_unsent(editor_is):
    editor_is("path.write_text(path.read_text() + ' and more [x]\\n')")
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            shown.app.suspend = nullcontext
            await shown.write("a draft")
            await shown.press("ctrl+g")
            assert shown.prompt.text == "a draft and more [x]"
            assert engine.submitted == []
            assert service.chats()[0].draft == "a draft"


async def test_a_draft_stays_when_the_editor_fails_or_there_is_no_terminal_for_it(editor_is):
    editor_is("path.write_text('lost'); sys.exit(1)", name="[red]my editor")
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.write("a draft")
            await shown.press("ctrl+g")
            await shown.until_shown("No editor can be opened")
            shown.app.suspend = nullcontext
            await shown.press("ctrl+g")
            await shown.until_shown("ended with exit code 1")
            assert "[red]my editor" in shown.text.replace("\n", "")
            assert shown.prompt.text == "a draft"


async def test_slash_system_without_a_text_edits_the_system_prompt(editor_is):
    editor_is("path.write_text('Be brief.\\nBe kind.\\n')")
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            shown.app.suspend = nullcontext
            await shown.say("/system")
            assert service.chats()[0].system == "Be brief.\nBe kind."
            assert "Be kind." in shown.text
