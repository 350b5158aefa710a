"""`compare`: what comes out of pipes and on terminals; with answers from a script and for real."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.errors import StepFailed
from localpaged.models.catalogue import DEFAULT_MODEL
from localpaged.store.rows import TurnStatus
from localpaged.store.store import Store
from testkit.commands import TIMEOUT_S, assert_refused, call, command_line, run, start
from testkit.fake_model import read_prompt
from testkit.scripted_engine import Answer
from testkit.terminals import in_terminal

HOSTILE = "a\x1b]52;c;aGk=\x07[b]\u202eb"
KEYS = {
    "compare_id",
    "prompt_tokens",
    "cached_tokens",
    "computed_tokens",
    "branches",
    "first_differences",
    "error",
}


@pytest.fixture
def two_models(listed_home: Path) -> str:
    """The name of a second model that is listed."""
    (paths.models_dir() / "second.gguf").touch()
    return "second"


def test_answers_come_below_lines_that_name_them(answer_with):
    runs = answer_with(["First ", "answer."], ["Second", " answer.\n"])
    done = call("compare", "Why?", "-t", "0.2", "-t", "1", "--seed", "7", stdin=b"from a pipe\n")
    assert (done.code, done.err) == (0, "")
    headings = re.findall(r"^== (.*) ==$", done.out, re.MULTILINE)
    assert sorted(headings) == [
        "1 smollm2-135m-instruct t=0.2 seed=7",
        f"2 {DEFAULT_MODEL} t=1 seed=8",
    ]
    assert sorted(re.split(r"\n*== .* ==\n", done.out)[1:]) == ["First answer.", "Second answer.\n"]
    assert [request.sampling.temperature for request in runs.requests] == [0.2, 1.0]
    assert {tuple(read_prompt(request.prompt_ids)[:1]) for request in runs.requests} == {
        (("user", "Why?\n\nfrom a pipe"),)
    }


def test_answers_are_printed_in_their_order_whichever_is_complete_first(answer_with):
    answer_with(*([f"answer-{number} "] * (40 * (4 - number) + 1) for number in range(4)))
    done = call("compare", "Why?", "-t", "0.1,0.2,0.3", "-t", "0.4")
    headings = re.findall(r"^== (.) .* t=(.*) seed", done.out, re.MULTILINE)
    assert headings == [("1", "0.1"), ("2", "0.2"), ("3", "0.3"), ("4", "0.4")]
    assert all(f"answer-{number}" in done.out for number in range(4))


def test_json_has_every_answer_its_bill_and_where_they_part(answer_with, two_models):
    answer_with(["The ", "same ", "end"], ["The ", "same ", "start"])
    done = call(
        *("compare", "--json", "-m", DEFAULT_MODEL, "-m", two_models, "--system", "Brief.", "Why?")
    )
    assert done.code == 0
    compared = json.loads(done.out)
    assert set(compared) == KEYS
    first, second = compared["branches"]
    assert {first["text"], second["text"]} == {"The same end", "The same start"}
    assert [branch["model"] for branch in (first, second)] == [DEFAULT_MODEL, two_models]
    assert first["seed"] != second["seed"]
    assert first["status"] == "done" and first["finish_reason"] == "stop"
    assert compared["prompt_tokens"] == first["usage"]["prompt_tokens"]
    assert compared["computed_tokens"] == 2 * compared["prompt_tokens"]
    (difference,) = compared["first_differences"]
    assert difference == {"branches": [0, 1], "char": 9, "word": 2, "token": None}
    assert done.out.isascii()


def test_answers_of_one_model_part_at_a_token(answer_with):
    answer_with(["One ", "two ", "three"], ["One ", "two ", "four"], ["One ", "two ", "three"])
    compared = json.loads(call("compare", "--json", "-n", "3", "Count.").out)
    texts = [branch["text"] for branch in compared["branches"]]
    for difference in compared["first_differences"]:
        left, right = (texts[place] for place in difference["branches"])
        is_same = left == right
        assert difference["token"] == (None if is_same else 2)
        assert difference["char"] == (None if is_same else 8)


def test_what_is_answered_is_kept_for_the_chat(answer_with):
    answer_with(["answer"])
    compared = json.loads(call("compare", "--json", "Why?").out)
    store = Store.open()
    assert store.compare(compared["compare_id"]).prompt == "Why?"
    assert [store.chat(branch["chat_id"]).is_hidden for branch in compared["branches"]] == [
        True
    ] * 2
    assert store.chats() == []
    store.close()


def test_one_answer_that_fails_leaves_the_others_and_gives_its_exit_code(answer_with):
    failing = Answer(("Half",), error=StepFailed("The step failed.", hint="Try again."))
    answer_with(["Whole."], failing)
    done = call("compare", "Why?")
    assert done.code == 5
    assert "Whole." in done.out
    assert "Half\n-- failed: The step failed." in done.out
    assert done.err == "localpaged: The step failed.\nhint: Try again.\n"
    compared = json.loads(call("compare", "--json", "-n", "1", "Why?").out)
    assert compared["error"] is None
    assert compared["branches"][0]["error"]["type"] == "StepFailed"


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        ((), 2, "no question"),
        (("Why?", "-n", "0"), 2, "not 0.\nhint: Ask for one at least."),
        (("Why?", "-n", "17"), 2, "not 17"),
        (("Why?", "-t", "-1"), 2, "temperature"),
        (("Why?", "-t", "0.2;0.9"), 2, "write 0.7, or several as 0.2,0.9"),
        (("Why?", "--top-p", "2"), 2, "top_p"),
        (("Why?", "-m", "nobody"), 4, "nobody"),
        (("Why?", "-n", "many"), 2, "many"),
    ],
)
def test_wrong_use_is_one_sentence_and_saves_nothing(answer_with, arguments, code, part):
    answer_with(["answer"])
    assert_refused(call("compare", *arguments), code, part)
    assert not paths.database_file().exists()


def test_text_that_acts_on_terminals_is_shown_as_marks(answer_with):
    answer_with([HOSTILE])
    done = call("compare", HOSTILE)
    assert "\x1b" not in done.out and "\u202e" not in done.out
    assert done.out.count("[b]") == 2
    compared = json.loads(call("compare", "--json", HOSTILE).out)
    assert compared["branches"][0]["text"] == HOSTILE


def test_a_terminal_opens_the_compare_screen_over_the_chat(listed_home):
    line = command_line("compare", "Why?", "-n", "2", script=["Some ", "answer."])
    with in_terminal(line) as terminal:
        terminal.until_shown("compare", "Why?", "2 answers", "complete")
        terminal.send("k")
        terminal.until_shown("Kept as a chat.")
        terminal.send("q")
        terminal.until_shown("Ask anything")
        terminal.send("\x11")
        assert terminal.wait() == 0
    store = Store.open()
    (chat,) = store.chats()
    assert store.conversation(chat.id).messages[-1].text == "Some answer."
    store.close()


def test_a_terminal_without_a_cursor_has_the_answers_printed(listed_home):
    line = command_line("compare", "Why?", script=["Some ", "answer."])
    with in_terminal(line, columns=60, env={"TERM": "dumb"}) as terminal:
        assert terminal.wait() == 0
        assert b"\x1b" not in terminal.output
        assert sum(line.strip() == "Some answer." for line in terminal.text.splitlines()) == 2


def test_a_wide_plain_terminal_shows_columns_and_a_narrow_one_does_not(listed_home):
    def shown(columns: int) -> list[str]:
        line = command_line("compare", "Why?", "--plain", script=["Some ", "answer."])
        with in_terminal(line, columns=columns) as terminal:
            assert terminal.wait() == 0
            return terminal.text.splitlines()

    wide = shown(100)
    (row,) = [line for line in wide if "Some answer." in line]
    assert row.count("Some answer.") == 2 and "│" in row
    assert any("2 answers, 4 tokens" in line for line in wide)
    assert sum(line.strip() == "Some answer." for line in shown(60)) == 2


def test_ctrl_c_ends_all_answers_and_keeps_their_texts(listed_home):
    process = start(
        *("compare", "Tell me.", "--json", "--no-stop-loops"),
        streams={"stdin": subprocess.DEVNULL},
        script=["word "],
        times=20_000,
    )
    with process:
        deadline = time.monotonic() + TIMEOUT_S
        while _num_texts() < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    branches = json.loads(out)["branches"]
    assert {branch["status"] for branch in branches} == {"stopped"}
    assert all(branch["text"].startswith("word ") for branch in branches)
    store = Store.open()
    for branch in branches:
        assert store.turn(branch["turn_id"]).status is TurnStatus.STOPPED
        assert store.conversation(branch["chat_id"]).messages[-1].text == branch["text"]
    store.close()


def test_a_kill_keeps_the_texts_and_the_compare_is_found_again(listed_home):
    line = {"streams": {"stdin": subprocess.DEVNULL}, "script": ["word "], "times": 20_000}
    with start("compare", "Tell me.", **line) as process:
        deadline = time.monotonic() + TIMEOUT_S
        while _num_texts() < 2:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
    store = Store.open()
    (compare,) = store.compares()
    assert (compare.prompt, len(compare.chat_ids)) == ("Tell me.", 2)
    for chat_id in compare.chat_ids:
        conversation = store.conversation(chat_id)
        assert {turn.status for turn in conversation.turns} == {TurnStatus.INTERRUPTED}
        assert conversation.messages[-1].text.startswith("word ")
    store.close()


def _num_texts() -> int:
    if not paths.database_file().exists():
        return 0
    import sqlite3

    db = sqlite3.connect(f"{paths.database_file().as_uri()}?mode=ro", uri=True)
    try:
        return int(db.execute("SELECT count(*) FROM partials").fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # the tables are being made
    finally:
        db.close()


@pytest.mark.model
def test_the_default_model_reads_its_prompt_once_for_three_answers(ready_home):
    prompt = "Say in one sentence what a page table of an operating system is good for, please."
    done = run(
        *("compare", "--json", "-n", "3", "-t", "1", "--seed", "1", "--max-tokens", "12", prompt)
    )
    assert (done.code, done.err) == (0, "")
    compared = json.loads(done.out)
    num_prompt = compared["prompt_tokens"]
    # what fills no block of 16 tokens is read by each
    assert num_prompt < compared["computed_tokens"] <= num_prompt + 2 * 16
    assert len({branch["text"] for branch in compared["branches"]}) > 1
    assert all(branch["shared_blocks"] >= num_prompt // 16 for branch in compared["branches"])
    assert [d["token"] is not None for d in compared["first_differences"]] == [True, True]


def test_answers_that_were_not_kept_are_found_listed_and_shown(answer_with):
    answer_with(["blue ", "light"], ["nothing"])
    assert call("compare", "Sky?", "-n", "2", "--seed", "1").code == 0
    found = json.loads(call("history", "search", "blue", "--json").out)["hits"]
    assert [(hit["role"], hit["is_of_compare"]) for hit in found] == [("assistant", True)]
    assert "(answer of a compare)" in call("history", "search", "blue").out
    assert call("history", "list").out == ""
    listed = json.loads(call("history", "list", "--in", "compared", "--json").out)
    assert len(listed) == 2 and all(chat["is_of_compare"] for chat in listed)
    assert "blue" in call("history", "show", found[0]["chat_id"]).out
