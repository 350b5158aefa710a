"""Why was this not cached: a hint where nobody asked for the loss, and the whole story by a key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localpaged.chat.cache_report import CacheCause, CacheReport, Parting, report_of, to_json
from localpaged.store.rows import Turn, TurnStatus
from localpaged.tui.glyphs import UNICODE
from localpaged.tui.memory.why import CAUSES, why_lines
from localpaged.tui.session import Answer
from localpaged.tui.transcript.status import Moment, status_runs
from testkit.screens import open_service, stage
from testkit.scripted_engine import ScriptedEngine
from testkit.sizes import SIZES

QUESTION = "What is the capital of France, and which river flows through it?"
HOSTILE = "\x1b[31m[b]$x[/b]\u202eevil\u200b\n"


def status(report: CacheReport | None, *, cells: int | None = None) -> str:
    turn = Turn("t", "c", None, None, TurnStatus.DONE, "m")
    answer = Answer(turn, token_count=9, new_report=report)
    return "".join(run.text for run in status_runs(answer, UNICODE, Moment(), cells=cells))


def test_a_loss_that_nobody_asked_for_is_hinted_at_under_the_answer():
    assert status(CacheReport(CacheCause.EVICTED, 1_300, 96)) == (
        "9 tok · 1,204 computed again, w why"
    )
    for cause in (CacheCause.NOTHING, CacheCause.FIRST_TURN, CacheCause.EDITED):
        assert status(CacheReport(cause, 1_300, 96)) == "9 tok"
    assert status(CacheReport(CacheCause.EVICTED, 96, 96)) == "9 tok"
    assert status(CacheReport(CacheCause.RETOKENISED, 97, 96)) == "9 tok"
    assert status(None) == "9 tok"
    assert status(CacheReport(CacheCause.EVICTED, 1_300, 96), cells=30) == (
        "1,204 computed again, w why"
    )


@pytest.mark.parametrize("cause", list(CacheCause))
def test_every_cause_is_told_in_plain_sentences(cause):
    lines = why_lines(CacheReport(cause, 1_300, 96, 1_200), 60)
    text = " ".join(line.plain for line in lines)
    assert "96 of 1,300 prompt tokens (7 %) were found in memory, 1,204 were computed." in text
    assert CAUSES[cause][0].split()[0] in text
    assert all(len(line.plain) <= 60 for line in lines)


def test_a_report_of_another_version_is_no_report():
    turn = Turn("t", "c", None, None, TurnStatus.DONE, "m")
    for text in ("", "{", "[]", '{"cause": "moon phase"}', '{"cause": "evicted"}'):
        assert report_of(replace(turn, cache_report=text)) is None


@SIZES
async def test_an_evicted_prompt_is_explained_by_key_and_by_command(size):
    engine = ScriptedEngine([("It is ", "Paris."), ("The ", "Seine.")])
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask(QUESTION)
            await shown.answer()
            await shown.say("/why")
            assert "first prompt of this chat" in shown.text
            await shown.press("escape")
            engine.forget(shown.app.workspace.current.id)
            await shown.ask("And the river?")
            await shown.answer()
            assert "computed again, w why" in shown.text
            await shown.press("tab", "w")
            assert "memory was needed for something else" in shown.text
            assert "--kv-memory" in shown.text and "had been computed before" in shown.text
            await shown.press("w")
            assert shown.dialog is None
            # the marked answer's prompt, not the newest one's
            await shown.press("k", "k", "k", "w")
            assert "first prompt of this chat" in shown.text
            await shown.press("escape")


async def test_the_report_is_there_after_a_restart():
    engine = ScriptedEngine([("It is ", "Paris.")])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.ask(QUESTION)
            await shown.answer()
    engine = ScriptedEngine([("The ", "Seine.")])
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/why")
            assert "first prompt of this chat" in shown.text
            await shown.press("escape")
            await shown.ask("And the river?")
            await shown.answer()
            await shown.say("/why")
            assert "another run of localpaged" in shown.text


async def test_a_chat_without_answers_has_nothing_to_explain():
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine) as shown:
            await shown.say("/why")
            await shown.until_shown("It is not known")


@SIZES
async def test_hostile_texts_on_both_sides_stay_text(size):
    parting = Parting(123, HOSTILE, "old " + HOSTILE, "new " + HOSTILE)
    report = CacheReport(CacheCause.RETOKENISED, 400, 112, 123, parting)
    assert report_of(Turn("t", "c", None, None, TurnStatus.DONE, "m", cache_report=to_json(report)))
    engine = ScriptedEngine()
    with open_service(engine) as service:
        async with stage(service, engine, size=size) as shown:
            await shown.ask(QUESTION)
            await shown.answer()
            shown.last_answer.new_report = report
            await shown.press("tab", "w")
            assert "They part at token 123" in shown.text
            assert "before" in shown.text and "now" in shown.text
            assert shown.text.count("[b]$x[/b]") == 3
            assert not set("\x1b\u202e\u200b") & set(shown.text)


def test_what_came_from_disk_is_told_and_why_not_more():
    report = CacheReport(
        CacheCause.RESTARTED, 1_300, 96, 1_200, restored_tokens=80, restore_note=HOSTILE
    )
    text = " ".join(line.plain for line in why_lines(report, 60))
    assert "80 of those were restored from disk." in text
    assert "[b]$x[/b]" in text and "\x1b" not in text and "\u202e" not in text
    assert report_of(turn_with(report)) == report
    assert "disk" not in " ".join(
        line.plain for line in why_lines(CacheReport(CacheCause.NOTHING, 9, 8), 60)
    )


def turn_with(report: CacheReport) -> Turn:
    turn = Turn("t", "c", None, None, TurnStatus.DONE, "m")
    return replace(turn, cache_report=to_json(report))
