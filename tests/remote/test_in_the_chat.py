"""The chat UI with models behind endpoints: what is told, and what is greyed out and why."""

from __future__ import annotations

from itertools import pairwise

from localpaged.engine.snapshot import EngineSnapshot
from localpaged.remote.endpoint import Endpoint
from localpaged.tui import chrome
from localpaged.tui.paint import cells_of
from testkit.screens import LARGE, Stage, running
from testkit.scripted_endpoint import (
    STREAM_HEAD,
    ScriptedEndpoint,
    delta,
    hold,
    json_reply,
    reset,
    stream,
    usage,
)
from testkit.sizes import SIZES

REASON = {
    "tokens": "box is an endpoint: its tokens are not known here",
    "blocks": "box is an endpoint: its KV memory is elsewhere",
    "pin": "box is an endpoint: its KV memory is elsewhere",
    "unpin": "box is an endpoint: its KV memory is elsewhere",
    "why": "box is an endpoint: what it had cached is not told",
    "context": "box is an endpoint: its tokenizer is not here",
}


@SIZES
async def test_an_endpoint_answers_in_the_chat_like_a_model_here(begin, endpoint, size):
    endpoint.replies = [stream("Hello", " there", usage(1_234, 2))]
    run = begin(endpoint)
    async with running(run.service, size=size) as (app, pilot):
        shown = Stage(app, pilot, run.service, None)
        await shown.until_shown("endpoint")
        assert f"box  {endpoint.url[7:-3]}" in shown.text.splitlines()[0]
        assert "KV " not in shown.text.splitlines()[0]
        await shown.say("Hi")
        await shown.until_shown("Hello there")
        await shown.until_shown("2 tok")
        assert "prompt 1,234 tok" in shown.text and "cached" not in shown.text


async def test_every_way_to_what_it_cannot_do_tells_the_reason(begin, endpoint, monkeypatch):
    run = begin(endpoint)
    async with running(run.service, size=LARGE) as (app, pilot):
        shown = Stage(app, pilot, run.service, None)
        await shown.say("Hi")
        await shown.until_shown("Hello, world")
        told: list[str] = []
        monkeypatch.setattr(app, "tell", lambda text, **options: told.append(text))
        for command, reason in REASON.items():
            await shown.say(f"/{command}")
            assert (told.pop(), shown.prompt.text) == (f"{reason}.", "")
        await shown.say("/pin system")
        assert (told.pop(), shown.prompt.text) == (f"{REASON['pin']}.", "/pin system")
        await shown.press("ctrl+u", "f3")
        assert told.pop() == f"{REASON['blocks']}."
        await shown.press("tab")
        for key, action in (("t", "tokens"), ("w", "why")):
            await shown.press(key)
            assert told.pop() == f"{REASON[action]}."
        assert (len(app.screen_stack), told) == (1, [])


@SIZES
async def test_palette_and_help_show_it_greyed_out_with_the_reason(begin, endpoint, size):
    run = begin(endpoint)
    async with running(run.service, size=size) as (app, pilot):
        shown = Stage(app, pilot, run.service, None)
        await shown.say("Hi")
        await shown.until_shown("Hello, world")
        await shown.press("ctrl+p")
        await shown.press(*"KVmemory")
        await shown.until_shown("KV memory, block by block")
        row = next(line for line in shown.text.splitlines() if "block by block" in line)
        assert row.rstrip().endswith("its KV memory is elsewhere")
        await shown.press("enter")
        await shown.until(lambda: len(app.screen_stack) == 1)
        await shown.press("f1")
        await shown.until(lambda: shown.dialog is not None)
        page = shown.dialog._page.plain
        assert all(reason in page for reason in REASON.values())
        assert "Answer again, keep this one" in page


async def test_the_options_dialog_greys_out_what_the_server_does_not_know(begin, endpoint):
    run = begin(endpoint)
    async with running(run.service, size=LARGE) as (app, pilot):
        shown = Stage(app, pilot, run.service, None)
        await shown.say("Hi")
        await shown.until_shown("Hello, world")
        await shown.press("ctrl+o")
        await shown.until_shown("box does not know top_k")
        assert "box does not know min_p" in shown.text
        assert "box does not know temperature" not in shown.text
        await shown.press("down", "4", "0")
        await shown.until_shown("its messages are refused as long as it is set")


def test_the_bottom_line_greys_out_keys_of_endpoints():
    def roles(is_endpoint: bool) -> set:
        runs, _ = chrome.hint_runs(
            EngineSnapshot(),
            focus="transcript",
            num_running=0,
            can_stop=False,
            cells=200,
            is_endpoint=is_endpoint,
        )
        assert cells_of(runs) <= 200
        return {run.role for run, after in pairwise(runs) if "token" in after.text}

    assert roles(False) != roles(True)


@SIZES
async def test_an_endpoint_that_is_away_is_told_and_the_message_can_be_sent_again(
    begin, endpoint, size
):
    endpoint.replies = [json_reply(500, {"error": "boom [b]\x1b[2J"}), stream("Here I am")]
    run = begin(endpoint)
    async with running(run.service, size=size) as (app, pilot):
        shown = Stage(app, pilot, run.service, None)
        await shown.say("Are you there?")
        await shown.until_shown("the server failed (HTTP 500): boom [b]␛[2J")
        assert "Are you there?" in shown.text
        await shown.press("ctrl+r")
        await shown.until_shown("Here I am")


async def test_an_answer_that_broke_off_keeps_its_text_and_offers_to_go_on(begin, endpoint):
    endpoint.replies = [[STREAM_HEAD, delta(content="Once upon"), reset], stream(" a time.")]
    run = begin(endpoint, kind="vllm")
    async with running(run.service, size=LARGE) as (app, pilot):
        shown = Stage(app, pilot, run.service, None)
        await shown.say("A story")
        await shown.until_shown("the connection was lost in the middle")
        await shown.press("f5")
        await shown.until_shown("Once upon a time.")


async def test_where_no_answer_can_go_on_that_is_told_before_anything_changes(
    begin, endpoint, monkeypatch
):
    endpoint.replies = [stream("Once upon", reason="length")]
    run = begin(endpoint)
    async with running(run.service, size=LARGE) as (app, pilot):
        shown = Stage(app, pilot, run.service, None)
        await shown.say("A story")
        await shown.until_shown("Once upon")
        await shown.until(lambda: not shown.last_answer.is_open)
        told: list[str] = []
        monkeypatch.setattr(app, "tell", lambda text, **options: told.append(text))
        await shown.until_shown("cut by its server")
        assert "F5 continues" not in shown.text
        await shown.press("f5")
        assert told == ["box cannot continue an answer."]
        assert len(endpoint.posts) == 1 and "Once upon" in shown.text


async def test_a_model_can_be_chosen_by_its_address_in_the_chat(begin, endpoint):
    run = begin(endpoint)
    async with running(run.service, size=LARGE) as (app, pilot):
        shown = Stage(app, pilot, run.service, None)
        await shown.say("/model http://me:secret@host/v1#m")
        await shown.until_shown("may not contain")
        await shown.press("ctrl+u")
        other = endpoint.url.replace("127.0.0.1", "localhost")
        await shown.say(f"/model {other}#m1")
        await shown.say("Hi")
        await shown.until_shown("Hello, world")
        turn = run.service.transcript(app.workspace.current.id)[-1].turn
        assert turn.model == f"m1@{other[7:-3]}"
        await shown.press("ctrl+o")
        await shown.until_shown("does not know top_k")


async def test_while_it_answers_no_tokens_are_invented(begin, endpoint):
    endpoint.replies = [[STREAM_HEAD, delta(content="Once upon"), hold, *stream()[1:]]]
    run = begin(endpoint)
    async with running(run.service, size=LARGE) as (app, pilot):
        shown = Stage(app, pilot, run.service, None)
        await shown.say("Hi")
        await shown.until_shown("answering")
        assert " tok" not in shown.text
        endpoint.go_on.set()
        await shown.until(lambda: not shown.last_answer.is_open)


async def test_an_attached_file_is_told_without_a_price_and_why(
    begin, endpoint, tmp_path, monkeypatch
):
    (tmp_path / "notes.txt").write_text("some words")
    run = begin(endpoint)
    async with running(run.service, size=LARGE) as (app, pilot):
        shown = Stage(app, pilot, run.service, None)
        await shown.until_shown("endpoint")
        told: list[str] = []
        monkeypatch.setattr(app, "tell", lambda text, **options: told.append(text))
        await shown.say(f"/attach {tmp_path / 'notes.txt'}")
        await shown.until(lambda: bool(told))
        assert told == ["notes.txt is attached; box is an endpoint: its tokenizer is not here."]


async def test_a_compare_has_answers_of_endpoints_side_by_side(begin, endpoint):
    with ScriptedEndpoint([stream("By the other")]) as other:
        run = begin(endpoint, Endpoint("other", other.url, "m1"))
        async with running(run.service, size=LARGE) as (app, pilot):
            shown = Stage(app, pilot, run.service, None)
            await shown.say("/compare m=box,other Who are you?")
            await shown.until_shown("Hello, world")
            await shown.until_shown("By the other")
            assert "prompt 0 tok" not in shown.text and "2 answers" in shown.text
