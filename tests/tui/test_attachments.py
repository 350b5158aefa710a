"""Attached files: what is read, what is refused, what it costs, and how it is sent."""

from __future__ import annotations

import os
import socket
from concurrent.futures import Future
from pathlib import Path

import pytest

from localpaged.errors import ChatError
from localpaged.plain_text import visible
from localpaged.tui.attachments import MAX_BYTES, is_file_path, read_attachment
from localpaged.tui.glyphs import ASCII
from localpaged.tui.screens.confirm import ConfirmScreen
from testkit.builders import ready_model
from testkit.fake_model import FakeChatModel
from testkit.screens import LARGE, open_service, paste, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

LINES = "\n".join(f"line {n}" for n in range(312))
LABEL = "[notes.txt 312 lines · 2,724 tok · 171 blocks]"
BLOCK = f"File: notes.txt\n```txt\n{LINES}\n```"


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.txt"
    path.write_text(LINES + "\n")
    return path


# reading


@pytest.mark.parametrize(
    ("raw", "text", "num_replaced"),
    [
        (b"a\nb\n", "a\nb", 0),
        (b"a\r\nb\rc", "a\nb\nc", 0),
        (b"\xef\xbb\xbfa", "a", 0),
        ("ä".encode("utf-16"), "ä", 0),
        (b"caf\xe9 and more of it", "caf\ufffd and more of it", 1),
        ("kept \ufffd".encode(), "kept \ufffd", 0),
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m", 0),
    ],
)
def test_text_is_read_as_text(tmp_path, raw, text, num_replaced):
    path = tmp_path / "a.txt"
    path.write_bytes(raw)
    attachment = read_attachment(str(path))
    assert (attachment.text, attachment.num_replaced) == (text, num_replaced)


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"", "is empty"),
        (b" \n\n", "is empty"),
        (b"a\x00b", "is not a text file"),
        (bytes(range(256)) * 9, "is not a text file"),
        (b"x" * (MAX_BYTES + 1), "more than the 4.0 MiB possible"),
    ],
)
def test_what_is_no_text_or_too_much_is_refused(tmp_path, raw, what):
    path = tmp_path / "[a].bin"
    path.write_bytes(raw)
    with pytest.raises(ChatError, match=what) as raised:
        read_attachment(str(path))
    assert str(path) in raised.value.message


def test_what_is_no_file_is_refused_without_waiting(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for path, what in (
            (".", "is a folder"),
            ("pipe", "is a pipe"),
            ("socket", "is a socket"),
            ("/dev/zero", "is a device"),
            ("gone", "No such file"),
            ("a" * 5_000, "File name too long"),
            ("~nobody-at-all/x", "No such file"),
            ("file://[a/x", "No such file"),
        ):
            with pytest.raises(ChatError, match=what):
                read_attachment(path)
    with pytest.raises(ChatError, match="not a path"):
        read_attachment("a\x00b")


def test_what_looks_like_a_file_and_makes_a_reader_wait_is_refused(tmp_path, monkeypatch):
    # as /proc/kmsg does, which is for root alone
    monkeypatch.setattr("localpaged.tui.attachments._KINDS", ())
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    try:
        with pytest.raises(ChatError, match="nothing to read now"):
            read_attachment(str(tmp_path / "pipe"))
    finally:
        os.close(writer)


def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = tmp_path / "a"
    path.write_text("x")
    path.chmod(0)
    with pytest.raises(ChatError, match="Permission denied"):
        read_attachment(str(path))


def test_paths_are_understood_as_terminals_and_people_write_them(tmp_path, monkeypatch):
    path = tmp_path / "a b's [c].txt"
    path.write_text("x")
    escaped = str(path).replace(" ", "\\ ").replace("'", "\\'")
    monkeypatch.setenv("HOME", str(tmp_path))
    for written in (
        str(path),
        f'"{path}"',
        escaped,
        path.as_uri(),
        f"  {path} ",
        "~/a b's [c].txt",
    ):
        assert read_attachment(written).text == "x"


def test_only_what_is_surely_meant_as_a_path_is_offered(tmp_path, notes, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_file_path(str(notes))
    assert is_file_path(f" '{notes}' ")
    for text in (
        "notes.txt",
        "file:///[/x",
        "file://[a",
        "/quit",
        "/",
        str(tmp_path),
        f"{notes}\n",
        "/a\x00",
        "/" * 9_000,
    ):
        assert not is_file_path(text)


# in the prompt


@SIZES
async def test_a_file_is_a_label_with_its_price_and_is_sent_as_a_block(size, notes):
    engine = ScriptedEngine(lambda request: ("ok",))
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.say(f"/attach {notes}")
            await shown.until(lambda: LABEL in shown.prompt.text)
            await shown.until_shown("notes.txt is attached")
            assert "171 KV blocks" in shown.text
            await shown.say(" What is it?")
            question = shown.app.workspace.current.entries[0]
            assert question.text == f"{BLOCK}\nWhat is it?"


async def test_a_label_has_an_ascii_twin(tmp_path):
    path = tmp_path / ("long" * 20 + ".txt")
    path.write_text(LINES)
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, glyphs=ASCII) as shown:
            shown.app.commands.attaching.attach(str(path))
            await shown.until(lambda: "blocks]" in shown.prompt.text)
            assert shown.prompt.text.isascii()


async def test_a_label_goes_away_whole_from_both_sides(notes):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            for key in ("backspace", "delete"):
                shown.app.commands.attaching.attach(str(notes))
                await shown.until(lambda: LABEL in shown.prompt.text)
                if key == "delete":
                    await shown.press("home")
                await shown.press(key)
                assert shown.prompt.text == ""
                assert shown.prompt.draft.full == ""


async def test_an_attachment_survives_chats_and_restarts_as_a_label(notes):
    engine = ScriptedEngine(lambda request: ("ok",))
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask("first")
            await shown.answer()
            await shown.write("Look at ")
            shown.app.commands.attaching.attach(str(notes))
            await shown.until(lambda: LABEL in shown.prompt.text)
            await shown.press("ctrl+n")
            assert shown.prompt.text == ""
            await shown.press("alt+right")
            assert shown.prompt.text == f"Look at {LABEL}"
            await shown.press("ctrl+q")
    with open_service(ScriptedEngine()) as service:
        async with stage(service, engine, is_loaded=False) as shown:
            await shown.until(lambda: LABEL in shown.prompt.text)
            assert shown.prompt.draft.full == f"Look at\n{BLOCK}"


async def test_the_price_comes_when_the_model_is_open_and_never_without_one(notes):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        waiting: list[Future[int]] = []

        def count_tokens(text, *, model):
            waiting.append(Future())
            return waiting[-1]

        service.count_tokens = count_tokens
        async with stage(service, engine) as shown:
            await shown.write("before ")
            await paste(shown.pilot, LINES)
            await shown.write(" after")
            await shown.until(lambda: len(waiting) == 1)
            assert shown.prompt.text == "before [pasted 312 lines] after"
            shown.prompt.move_cursor((0, 3))
            waiting[0].set_result(17)
            await shown.until(lambda: "17 tok · 2 blocks" in shown.prompt.text)
            assert shown.prompt.text == "before [pasted 312 lines · 17 tok · 2 blocks] after"
            assert shown.prompt.cursor_location == (0, 3)
            shown.prompt.undo()
            assert shown.prompt.draft.full == f"before {LINES} after"
            await paste(shown.pilot, "x\n" * 30)
            await shown.until(lambda: len(waiting) >= 2)
            waiting[-1].set_exception(ChatError("no model"))
            await paste(shown.pilot, "y\n" * 40)
            await shown.until(lambda: len(waiting) >= 3)
            waiting[-1].set_exception(ValueError("a template of its own kind"))
            await shown.settle()
            assert "[pasted 31 lines]" in shown.prompt.text
            assert "[pasted 41 lines]" in shown.prompt.text


async def test_a_dropped_path_is_offered_and_stays_text_when_it_is_not_wanted(notes):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await paste(shown.pilot, f"'{notes}'")
            await shown.until_shown("Attach this file?")
            assert isinstance(shown.dialog, ConfirmScreen)
            await shown.press("n")
            assert shown.prompt.text == f"'{notes}'"
            shown.prompt.text = ""
            await paste(shown.pilot, str(notes))
            await shown.until(lambda: isinstance(shown.dialog, ConfirmScreen))
            await shown.press("y")
            await shown.until(lambda: LABEL in shown.prompt.text)


async def test_a_file_that_cannot_be_attached_is_told_literally(tmp_path):
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            await shown.say(f"/attach {tmp_path}/[red]x[/]\u202e")
            await shown.until_shown("[red]x[/]<U+202E>")
            assert visible(shown.text, multiline=True) == shown.text
            assert shown.prompt.draft.full == f"/attach {tmp_path}/[red]x[/]\u202e"
            shown.prompt.text = ""
            await shown.say("/attach")
            assert "Attach a text file" in shown.text
            await shown.press("escape")
            assert shown.prompt.text == ""


async def test_more_than_the_context_is_told_as_such(tmp_path):
    path = tmp_path / "book.txt"
    path.write_bytes(b"caf\xe9 " + b"word " * 2_000)
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=LARGE) as shown:
            shown.app.commands.attaching.attach(str(path))
            await shown.until_shown("more than the context of 8,192 tokens")
            assert "UTF-8 became 1 marks" in shown.text


async def test_a_sent_file_is_short_in_the_transcript_until_it_is_wanted(notes):
    engine = ScriptedEngine(lambda request: ("ok",))
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            shown.app.commands.attaching.attach(str(notes))
            await shown.until(lambda: LABEL in shown.prompt.text)
            await shown.ask(" What is it?")
            await shown.answer()
            assert "❯ [notes.txt 312 lines]" in shown.text
            assert "What is it?" in shown.text
            assert "314 more lines, click to show" in shown.text
            assert service.chats()[0].title == "What is it?"
            assert "line 300" not in shown.text
            shown.transcript.document.toggle_fold(0)
            shown.transcript.redraw()
            await shown.settle()
            assert "more lines, click" not in shown.text


async def test_a_price_that_comes_after_the_end_is_for_nobody():
    engine = ScriptedEngine()
    counting: Future[int] = Future()
    with open_service(engine) as service:
        service.count_tokens = lambda text, *, model: counting
        async with stage(service, engine) as shown:
            await paste(shown.pilot, LINES)
            await shown.settle()
            shown.app.exit()
            counting.set_result(3)


@SIZES
async def test_a_paste_that_no_context_holds_says_so_at_its_label_and_below_the_question(size):
    engine = ScriptedEngine()
    with open_service(engine, model=ready_model(FakeChatModel(context_length=64))) as service:
        async with stage(service, engine, size=size) as shown:
            await paste(shown.pilot, "line\n" * 10_000)
            await shown.until_shown("[pasted 10,001 lines · too long for the context]")
            await shown.press("enter")
            await shown.until_shown("64 tokens at most")
            await shown.beat()
            assert shown.text.count("tokens at most") == 1
            assert "/context" not in shown.text
            assert not engine.submitted
