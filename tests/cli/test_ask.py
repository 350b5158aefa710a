"""What `ask` makes of options, input and events; the model is a script."""

from __future__ import annotations

import json
import signal
import threading

import pytest

from localpaged.chat.cache_report import CacheCause, CacheReport
from localpaged.chat.events import TurnEnded
from localpaged.cli.answer import StatusLine, TextAnswer
from localpaged.engine.events import Event, TokenEvent, Usage
from localpaged.engine.finish_reason import FinishReason
from localpaged.errors import StepFailed
from localpaged.store.rows import TurnStatus
from localpaged.store.scope import ChatScope
from localpaged.store.store import Store
from testkit.builders import ready_model
from testkit.commands import call
from testkit.fake_model import FakeChatModel, read_prompt
from testkit.scripted_engine import Answer

HOSTILE = "\x1b]0;owned\x07\x1b[2Jred\u202etxt\r\x9b1mend\x00"


@pytest.fixture
def last_chat(home):
    """Return the texts and the latest turn of the chat that was used last."""

    def last_chat():
        store = Store.open()
        try:
            conversation = store.conversation(store.chats()[0].id)
            return [m.text for m in conversation.messages], conversation.turns[-1]
        finally:
            store.close()

    return last_chat


def test_the_answer_alone_is_on_stdout_and_ends_with_one_line_feed(answer_with, last_chat):
    answer_with(["Pa", "ris."], ["Paris.\n"])
    for _ in range(2):
        done = call("ask", "What", "is it?")
        assert (done.code, done.out, done.err) == (0, "Paris.\n", "")
    assert last_chat()[0] == ["What is it?", "Paris.\n"]


def test_stdin_goes_behind_the_question_without_its_last_line_feeds(answer_with):
    runs = answer_with(["Yes."])
    assert call("ask", "Is this right?", stdin=b"1 + 1\n= 2\r\n\n").code == 0
    assert read_prompt(runs.requests[0].prompt_ids)[0] == (
        "user",
        "Is this right?\n\n1 + 1\n= 2",
    )


def test_a_question_that_begins_with_a_dash_goes_behind_two(answer_with):
    runs = answer_with(["-2"])
    assert call("ask", "-5 + 3?").code == 2
    assert call("ask", "--", "-5 + 3?").out == "-2\n"
    assert read_prompt(runs.requests[0].prompt_ids)[0] == ("user", "-5 + 3?")


def test_stdin_alone_is_a_question_and_bytes_that_are_no_text_become_marks(answer_with):
    runs = answer_with(["Yes."])
    assert call("ask", stdin=b"caf\xe9\x00?").code == 0
    assert read_prompt(runs.requests[0].prompt_ids)[0] == ("user", "caf\ufffd\ufffd?")


@pytest.mark.parametrize("arguments", [["ask"], ["ask", " "], ["ask", "--continue"]])
def test_no_question_is_wrong_use(answer_with, arguments):
    runs = answer_with(["Yes."])
    done = call(*arguments, stdin=b" \n")
    assert done.code == 2
    assert done.err.startswith("localpaged: There is no question.\nhint: ")
    assert not runs.requests


def test_endless_input_is_refused_before_it_fills_the_memory(answer_with, monkeypatch):
    monkeypatch.setattr("localpaged.cli.input.MAX_STDIN_BYTES", 1_000)
    answer_with(["Yes."])
    assert call("ask", stdin=b"x" * 1_000).code == 0
    done = call("ask", stdin=b"x" * 1_001)
    assert done.code == 2
    assert "More than 1,000 bytes" in done.err


def test_options_reach_the_engine(answer_with):
    runs = answer_with(["Yes."])
    options = "--temperature 0.5 --top-k 4 --top-p 0.9 --min-p 0.1 --seed 7 --max-tokens 9"
    done = call("ask", *options.split(), "--stop", "\n", "--stop", "END", "Hi", "-s", "Be brief.")
    assert done.code == 0
    (request,) = runs.requests
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_k, sampling.top_p) == (0.5, 4, 0.9)
    assert (sampling.min_p, sampling.seed, sampling.max_tokens) == (0.1, 7, 9)
    assert sampling.stop == ("\n", "END")
    assert read_prompt(request.prompt_ids)[:2] == [("system", "Be brief."), ("user", "Hi")]


def test_continue_goes_on_in_the_last_chat(answer_with, last_chat):
    runs = answer_with(["One."], ["Two."])
    assert call("ask", "First?").code == 0
    assert call("ask", "-c", "Second?").out == "Two.\n"
    assert [text for _, text in read_prompt(runs.requests[1].prompt_ids)] == [
        "First?", "One.", "Second?", "",
    ]  # fmt: skip
    assert last_chat()[0] == ["First?", "One.", "Second?", "Two."]


def test_without_a_chat_there_is_nothing_to_continue(answer_with):
    answer_with(["Yes."])
    done = call("ask", "--continue", "Hi")
    assert done.code == 1
    assert "no chat to continue" in done.err


def test_a_system_prompt_in_a_chat_that_goes_on_is_wrong_use(answer_with):
    runs = answer_with(["Yes."])
    assert call("ask", "--continue", "--system", "Be brief.", "Hi").code == 2
    assert not runs.requests


def test_json_is_one_object_with_the_documented_keys(answer_with):
    answer_with(["Yes", " – so."])
    done = call("ask", "--json", "--seed", "7", "Is it?")
    assert (done.code, done.err) == (0, "")
    answer = json.loads(done.out)
    assert set(answer) == {
        "chat_id", "turn_id", "seed", "text", "reasoning", "status", "finish_reason", "usage",
        "logprobs", "error",
    }  # fmt: skip
    assert answer["text"] == "Yes – so."
    assert (answer["status"], answer["finish_reason"], answer["seed"]) == ("done", "stop", 7)
    assert set(answer["usage"]) == {
        "prompt_tokens", "cached_tokens", "completion_tokens", "load_s", "ttft_s",
        "decode_tokens_per_s",
    }  # fmt: skip
    assert answer["usage"]["completion_tokens"] == 2
    assert answer["error"] is None


def test_the_help_documents_every_key_and_exit_code(answer_with):
    answer_with(["Yes."])
    answer = json.loads(call("ask", "--json", "Hi").out)
    help_text = call("ask", "--help").out
    failed = json.loads(call("ask", "--json", "--temperature", "9e9", "Hi").out)
    for key in (*answer, *answer["usage"], *failed["error"]):
        assert key in help_text
    for code in ("0", "1", "2", "4", "5", "6", "130", "141"):
        assert f"\n    {code} " in help_text


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (["--temperature", "-1", "Hi"], 2, "BadParameter"),
        ([], 2, "ConfigError"),
        (["--continue", "Hi"], 1, "ChatError"),
        (["x" * 9_000], 5, "PromptTooLong"),
    ],
)
def test_json_is_one_object_also_on_failure(answer_with, arguments, code, kind):
    answer_with(["Yes."])
    done = call("ask", "--json", *arguments)
    answer = json.loads(done.out)
    assert done.code == code
    assert (answer["status"], answer["text"], answer["usage"]) == ("error", "", None)
    assert answer["error"]["type"] == kind
    assert done.err.startswith(f"localpaged: {answer['error']['message']}\n")


def test_what_was_answered_before_a_failure_is_kept(answer_with, last_chat):
    answer_with(Answer(("Half an ", "ans"), error=StepFailed("The step failed.", hint="Retry.")))
    done = call("ask", "Hi")
    assert (done.code, done.out) == (5, "Half an ans\n")
    assert done.err == "localpaged: The step failed.\nhint: Retry.\n"
    texts, turn = last_chat()
    assert (texts[-1], turn.status) == ("Half an ans", TurnStatus.ERROR)
    answer = json.loads(call("ask", "--json", "Hi").out)
    assert answer["text"] == "Half an ans"
    assert answer["error"] == {
        "type": "StepFailed", "message": "The step failed.", "hint": "Retry.",
    }  # fmt: skip


def listed_and_deleted() -> tuple[int, int]:
    store = Store.open()
    try:
        return len(store.chats()), len(store.chats(ChatScope.DELETED))
    finally:
        store.close()


def test_a_question_that_no_engine_took_leaves_no_chat_to_open_with(answer_with):
    answer_with(["Yes."])
    assert call("ask", "x" * 9_000).code == 5
    assert listed_and_deleted() == (0, 1)
    assert call("ask", "Hi").code == 0
    assert call("ask", "--continue", "x" * 9_000).code == 5
    assert listed_and_deleted() == (1, 1)


def test_a_terminal_sees_marks_json_and_history_the_exact_text(answer_with, last_chat):
    answer_with(list(HOSTILE))
    shown = call("ask", "Hi").out
    assert shown == "␛]0;owned␇␛[2Jred<U+202E>txt␍<U+009B>1mend\ufffd\n"
    done = call("ask", "--json", "Hi")
    stored = HOSTILE.replace("\x00", "\ufffd")
    assert done.out.isascii()
    assert not any(ord(character) < 32 for character in done.out.removesuffix("\n"))
    assert json.loads(done.out)["text"] == stored
    assert last_chat()[0][-1] == stored


def test_a_windows_line_end_is_one_also_in_two_pieces(answer_with):
    answer_with(["one\r", "\ntwo\r", "three\r"])
    assert call("ask", "Hi").out == "one\ntwo␍three␍\n"


def test_an_answer_cut_by_the_context_is_told_one_cut_as_asked_is_not(answer_with):
    answer_with(Answer(("Once upon",), reason=FinishReason.LENGTH))
    cut = call("ask", "Tell a story.")
    assert (cut.code, cut.out) == (0, "Once upon\n")
    assert "cut" in cut.err
    assert call("ask", "--max-tokens", "1", "Tell a story.").err == ""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_answer_and_keeps_its_text(answer_with, last_chat, number, code):
    def stop_after_a_while(events):
        if sum(isinstance(event, TokenEvent) for event in events) and len(seen) < 5:
            seen.extend(events)
            if len(seen) == 5:
                signal.pthread_kill(main_thread, number)

    main_thread = threading.get_ident()
    seen: list[Event] = []
    answer_with(["word "] * 100_000, listener=stop_after_a_while)
    before = signal.getsignal(number)
    done = call("ask", "--no-stop-loops", "Count.")
    assert done.code == code
    assert done.out.startswith("word word ")
    assert done.err == ""
    texts, turn = last_chat()
    assert turn.status is TurnStatus.STOPPED
    assert texts[-1].rstrip() == done.out.rstrip()
    assert signal.getsignal(number) is before


def with_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let stderr count as a terminal."""

    class OnTerminal(StatusLine):
        def __init__(self):
            super().__init__()
            self.is_on_terminal = True

    monkeypatch.setattr("localpaged.cli.answer.StatusLine", OnTerminal)


def with_preamble(monkeypatch: pytest.MonkeyPatch, preamble: str) -> None:
    """Let the chat template write something in front of every conversation."""
    model = FakeChatModel(preamble=preamble)
    monkeypatch.setattr("testkit.commands.ready_model", lambda _: ready_model(model))


def test_a_terminal_is_told_once_why_a_prompt_was_computed_again(answer_with, monkeypatch):
    answer_with(["Paris."])
    with_terminal(monkeypatch)
    with_preamble(monkeypatch, "It is Monday. ")
    assert "not cached" not in call("ask", "What?").err
    assert "not cached" not in call("ask", "--continue", "And?").err
    with_preamble(monkeypatch, "It is Tuesday\x1b[2J. ")

    done = call("ask", "--continue", "And?")

    (line,) = (line for line in done.err.splitlines() if "not cached" in line)
    assert "because the chat template writes the conversation in another way" in line
    assert "(“Monday. <user>What?<end>” is now “Tuesday␛[2J. <user>What?”)" in line
    assert done.out == "Paris.\n"


def test_nobody_else_is_told_why(answer_with, monkeypatch):
    answer_with(["Paris."])
    assert call("ask", "What?").code == 0
    with_preamble(monkeypatch, "It is Tuesday. ")
    assert "not cached" not in call("ask", "--continue", "And?").err
    with_terminal(monkeypatch)
    with_preamble(monkeypatch, "It is Wednesday. ")
    done = call("ask", "--json", "--continue", "And?")
    assert "not cached" not in done.err
    assert "not cached" not in done.out


@pytest.mark.parametrize("cause", list(CacheCause))
def test_every_surprise_has_its_reason(cause, capsys, monkeypatch):
    with_terminal(monkeypatch)
    answer = TextAnswer()
    report = CacheReport(cause, prompt_tokens=1_200, matched_tokens=100)
    usage = Usage(1_200, 100, 5, 0.1, 0.2)

    answer.explain(report)
    answer.end(TurnEnded("c", "t", TurnStatus.DONE, FinishReason.STOP, usage, None), None)

    lines = [line for line in capsys.readouterr().err.splitlines() if "not cached" in line]
    assert len(lines) == report.is_surprising
    assert all("1,100 of 1,200 prompt tokens, because" in line for line in lines)
