"""`localpaged history`: chats from the command line, exact for programs, harmless for terminals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from localpaged.store.scope import ChatScope
from localpaged.store.store import Store
from localpaged.store.writes import Write, change_chat
from testkit.builders import make_chat
from testkit.commands import assert_refused, call, start
from testkit.past_chats import write_chat

HOSTILE = "\x1b]52;c;x\x07 needle \u202e[b]"
LONG = ("ask", "--no-stop-loops", "Hi")


@pytest.fixture
def chat_id(home: Path) -> str:
    return write_chat([("about apples", "An apple is a fruit.")], title="Fruit")


def records(*arguments: str):
    done = call("history", *arguments, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def listed(scope: str = "all") -> list[str]:
    return [chat["id"] for chat in records("list", "--in", scope)]


def test_chats_are_listed(chat_id):
    other = write_chat([("q", "a")], title=HOSTILE, choice="")
    done = call("history", "list")
    assert done.code == 0
    assert "Fruit" in done.out
    assert "\x1b" not in done.out
    assert "\u202e" not in done.out
    by_id = {chat["id"]: chat for chat in records("list")}
    assert by_id[other]["title"] == HOSTILE
    assert by_id[other]["model"] is None  # no choice: each run's default answers
    assert set(by_id[chat_id]) == {
        *("id", "title", "model", "created_at", "updated_at"),
        *("archived_at", "deleted_at", "forked_from", "is_of_compare"),
    }
    assert call("history").out == done.out


def test_an_empty_history_is_said_on_stderr(home):
    done = call("history", "list")
    assert (done.code, done.out) == (0, "")
    assert "no chats" in done.err
    assert records("list") == []


def test_what_the_list_prints_names_the_chat(chat_id):
    short = call("history", "list").out.split()[0]
    assert len(short) < len(chat_id)
    assert "about apples" in call("history", "show", short).out
    assert "about apples" in call("history", "show", chat_id.upper()).out


def test_an_id_that_several_chats_begin_with_is_refused(home):
    store = Store.open()
    for name in ("same-one", "same-two"):
        make_chat(store, chat_id=name, texts=[name])
    store.close()
    assert_refused(call("history", "show", "same"), 2, "2 chats begin with")
    assert "same-one" in call("history", "show", "same-o").out


@pytest.mark.parametrize("name", ["nothing", "", "%", "../../etc/passwd"])
def test_a_chat_that_is_not_there_is_refused(chat_id, name):
    assert_refused(call("history", "show", name), 4, "There is no chat", "history list")


def test_a_search_tells_chat_message_and_place(chat_id):
    write_chat([(HOSTILE, "a")], title="Hostile")
    done = call("history", "search", "apple")
    assert done.code == 0
    assert "an apple is a fruit" in done.out.lower()
    listed = call("history", "list").out
    assert all(line.split("  ")[0] in listed for line in done.out.splitlines()), "ids as listed"
    (hit, *_) = records("search", "fruit", "is")["hits"]
    start, end = hit["places"][0]
    assert hit["snippet"][start:end].lower() in ("fruit", "is")
    assert (hit["chat_id"], hit["is_on_branch"], hit["role"]) == (chat_id, True, "assistant")
    assert "\x1b" not in call("history", "search", "needle").out


@pytest.mark.parametrize("text", ['"', "*", "a:b", "(x", "NEAR(", "zebra", "%"])
def test_any_text_can_be_searched_for(chat_id, text):
    done = call("history", "search", text)
    assert (done.code, done.out) == (0, "")
    assert "Nothing found" in done.err


def test_a_conversation_is_shown_without_driving_the_terminal(home):
    chat_id = write_chat([(f"one\n{HOSTILE}", "two")], title="T", system="Be brief.")
    out = call("history", "show", chat_id).out
    assert out.startswith("# T\n\n[system]\nBe brief.\n\n[user]\none\n␛]52")
    assert out.endswith("[assistant]\ntwo\n")
    whole = json.loads(call("history", "show", chat_id, "--json").out)
    assert whole["chats"][0]["messages"][1]["text"] == f"one\n{HOSTILE}"


def test_export_and_import_are_a_round_trip(chat_id, tmp_path, monkeypatch):
    done = call("history", "export", chat_id, "-o", str(tmp_path))
    assert (done.code, done.out) == (0, "")
    assert "Fruit.md" in done.err
    assert call("history", "export", "--all", "-o", str(tmp_path / "all.json")).code == 0
    monkeypatch.setenv("LOCALPAGED_HOME", str(tmp_path / "elsewhere"))
    imported = records("import", str(tmp_path / "all.json"), str(tmp_path / "Fruit.md"))
    assert [chat["outcome"] for chat in imported["chats"]] == ["new", "known"]
    assert imported["problems"] == []
    assert listed() == [chat_id]
    done = call("history", "import", str(tmp_path / "Fruit.md"))
    assert "Imported 0 chats, 1 here already." in done.err


def test_export_to_stdout_is_exact(home):
    chat_id = write_chat([(HOSTILE, "a")], title="T")
    out = call("history", "export", chat_id).out
    assert HOSTILE in out
    assert json.loads(call("history", "export", chat_id, "--format", "json").out)["version"] == 1


def test_an_export_overwrites_nothing_unless_told(chat_id, tmp_path):
    path = tmp_path / "mine.md"
    path.write_text("mine")
    arguments = ("history", "export", chat_id, "-o", str(path))
    assert_refused(call(*arguments), 1, str(path), "there already", "--force")
    assert path.read_text() == "mine"
    assert call(*arguments, "--force").code == 0
    assert "about apples" in path.read_text()


def test_wrong_use_of_export_is_refused(chat_id, tmp_path):
    write_chat([("q", "a")])
    assert_refused(call("history", "export"), 2, "--all")
    assert_refused(call("history", "export", chat_id, "--all"), 2, "--all")
    refused = call("history", "export", "--all", "--format", "md")
    assert_refused(refused, 2, "one chat, not 2", "--format json")


def test_a_file_that_is_no_chat_is_refused(chat_id, tmp_path):
    path = tmp_path / "x.json"
    path.write_text("{")
    assert_refused(call("history", "import", str(path)), 1, str(path))
    assert_refused(call("history", "import", str(tmp_path)), 1, "is a folder")
    assert_refused(call("history", "import", str(tmp_path / "no")), 1, "is not there")


@pytest.mark.parametrize("name", ["x" * 300, "x" * 250 + ".md", "no/x.md", "a\0b"], ids=len)
def test_an_export_to_no_possible_file_is_refused(chat_id, tmp_path, name):
    done = call("history", "export", chat_id, "-o", str(tmp_path / name))
    assert (done.code, done.err.count("\n") <= 2) == (1, True)
    assert "inside localpaged" not in done.err
    assert not list(tmp_path.rglob("*.md*"))


def test_of_several_files_those_that_can_be_read_are_imported(chat_id, tmp_path, monkeypatch):
    good = [tmp_path / f"{number}.md" for number in range(2)]
    for path in good:
        assert call("history", "export", chat_id, "-o", str(path)).code == 0
    monkeypatch.setenv("LOCALPAGED_HOME", str(tmp_path / "elsewhere"))
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    files = [str(path) for path in (good[0], bad, tmp_path / "none.json", good[1])]
    done = call("history", "import", *files, "--json")
    told = json.loads(done.out)
    assert [chat["outcome"] for chat in told["chats"]] == ["new", "known"]
    for file, problem in zip(files[1:3], told["problems"], strict=True):
        assert file in problem
        assert f"Not read: {problem}" in done.err
    assert done.code == 1
    assert "2 of 4 files have no chats that can be read." in done.err
    assert listed() == [chat_id]
    done = call("history", "import", str(bad), "--json")
    assert (done.code, json.loads(done.out)["chats"]) == (1, [])
    assert_refused(call("history", "import", str(bad)), 1, str(bad))


def test_chats_are_renamed_archived_deleted_and_brought_back(chat_id):
    assert call("history", "rename", chat_id, "Red", "fruit").code == 0
    assert records("list")[0]["title"] == "Red fruit"
    assert call("history", "archive", chat_id).code == 0
    assert (listed("listed"), listed("archived")) == ([], [chat_id])
    assert call("history", "archive", chat_id, "--undo").code == 0
    assert listed("listed") == [chat_id]
    unanswered = call("history", "rm", chat_id)
    assert unanswered.code == 1
    assert "--yes" in unanswered.err
    assert chat_id in listed()
    assert call("history", "rm", chat_id, "--yes").code == 0
    assert (listed(), listed("deleted")) == ([], [chat_id])
    assert call("history", "rm", chat_id, "--undo").code == 0
    assert listed() == [chat_id]


def test_deleting_asks_first(chat_id):
    done = call("history", "rm", chat_id, stdin=b"n\n")
    assert "Delete “Fruit”?" in done.err
    assert listed() == [chat_id]
    call("history", "rm", chat_id, stdin=b"y\n")
    assert listed() == []


@pytest.mark.parametrize("title", ["\u202e\u200b", " ", "\n"])
def test_a_title_that_nobody_sees_is_refused(chat_id, title):
    assert_refused(call("history", "rename", chat_id, title), 2, "title")


def test_a_chat_that_is_answering_is_neither_archived_nor_deleted(listed_home):
    streams = {"stdin": subprocess.DEVNULL}
    with start(*LONG, streams=streams, script=["word "], times=100_000) as answering:
        assert answering.stdout is not None
        assert answering.stdout.read(4) == b"word"
        (chat_id,) = listed()
        for command in (("archive", chat_id), ("rm", "--yes", chat_id)):
            assert_refused(call("history", *command), 1, "being answered", "Stop it there")
        answering.send_signal(signal.SIGINT)
        answering.communicate(timeout=20)
    assert listed("listed") == [chat_id]
    assert call("history", "archive", chat_id).code == 0


def test_it_works_while_the_history_is_open_elsewhere(chat_id):
    elsewhere = Store.open()
    elsewhere.submit(Write(chat_changes=(change_chat(chat_id, title="Elsewhere"),))).result(10)
    assert records("list")[0]["title"] == "Elsewhere"
    assert call("history", "archive", chat_id).code == 0
    assert [chat.id for chat in elsewhere.chats(ChatScope.ARCHIVED)] == [chat_id]
    elsewhere.close()


def test_reading_commands_load_nothing_heavy(chat_id):
    code = (
        "import sys; from localpaged.cli.main import main\n"
        "try: main(['history', 'list'], prog_name='localpaged')\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"numpy", "torch", "textual", "transformers", "localpaged.engine.engine"}
