"""Beginnings and ends are told at once; tokens in between go out together."""

from __future__ import annotations

import asyncio

from localpaged.chat.kept_kv import is_deleted
from localpaged.engine.events import Event, FinishEvent, PrefillEvent, TokenEvent
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.params import Request
from localpaged.server import desk as module
from localpaged.server.desk import Desk
from localpaged.store.store import Store
from testkit.scripted_engine import ScriptedEngine

A = Request("a", (1, 2))
END = FinishEvent("a", FinishReason.STOP, None)


def token(number: int) -> TokenEvent:
    return TokenEvent("a", (number,), f"{number}")


async def test_tokens_wait_for_each_other_and_nothing_else_does(monkeypatch):
    monkeypatch.setattr(module, "PACE_S", 3_600.0)
    loop = asyncio.get_running_loop()
    wakes: list[object] = []
    wake = loop.call_soon_threadsafe
    monkeypatch.setattr(
        loop, "call_soon_threadsafe", lambda call, *args: (wakes.append(call), wake(call, *args))
    )
    desk = Desk(ScriptedEngine(), loop)
    ticket = desk.submit(A)

    async def taken(*told: Event) -> list[Event]:
        for event in told:
            desk.on_events((event,))
        arrived = await asyncio.wait_for(ticket.take(), 5)
        return [event for each in arrived for event in each.events]

    begin = PrefillEvent("a", 0, 2, 2)
    assert await taken(begin) == [begin]
    assert await taken(token(0)) == [token(0)], "the first token is waited for"
    wakes.clear()
    for number in range(1, 50):
        desk.on_events((token(number),))
    assert wakes == []
    told = await taken(END)

    assert told == [*(token(number) for number in range(1, 50)), END]
    assert ticket.is_over
    assert desk.num_open == 0


async def test_tokens_that_wait_go_out_without_a_further_event(monkeypatch):
    monkeypatch.setattr(module, "PACE_S", 0.01)
    desk = Desk(ScriptedEngine(), asyncio.get_running_loop())
    ticket = desk.submit(A)
    desk.on_events((token(0),))
    await asyncio.wait_for(ticket.take(), 5)

    for number in range(1, 4):
        desk.on_events((token(number),))
        (arrived,) = await asyncio.wait_for(ticket.take(), 5)
        assert arrived.events == (token(number),)


async def test_others_events_are_nobodys_here():
    desk = Desk(ScriptedEngine(), asyncio.get_running_loop())
    ticket = desk.submit(A)

    desk.on_events((TokenEvent("b", (1,), "x"),))
    desk.on_events((token(0),))

    (arrived,) = await asyncio.wait_for(ticket.take(), 5)
    assert arrived.events == (token(0),)


def test_what_clients_ask_is_kept_in_no_file(served, home):
    served.chat(user="somebody")
    served.chat(user="\x1b" * 500)
    store = Store.open()

    for request in served.engine.submitted:
        assert is_deleted(store, request.chat_id), "as far as files of KV go"
        assert len(request.chat_id) <= 80
        assert "\x1b" not in request.chat_id
    store.close()
