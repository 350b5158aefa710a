"""Measuring an answer and going on from inside it, with a real engine over a tiny model."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from localpaged.chat.events import TurnEnded, TurnPrefill
from localpaged.chat.service import ChatService
from localpaged.engine.engine import Engine
from localpaged.engine.events import ReadyEvent
from localpaged.engine.params import SamplingParams
from localpaged.models.open_model import open_model
from localpaged.prompt import ChatModel
from localpaged.store.store import Store
from localpaged.store.token_ids import unpack
from testkit.builders import WAIT_S, Recorder
from testkit.tiny_model import save_tiny_model

NUM_BLOCKS, BLOCK = 24, 16
GREEDY = SamplingParams(temperature=0.0, max_tokens=60)


@pytest.fixture
def service(tmp_path: Path, database_path: Path) -> Iterator[tuple[ChatService, Recorder]]:
    import torch

    from testkit.decoders import load_decoder, make_decoder_core

    torch.set_num_threads(1)
    opened = open_model(save_tiny_model(tmp_path / "llama", "llama"))
    decoder, _ = load_decoder(opened.source)
    model: Future[ChatModel] = Future()
    model.set_result(opened.chat)

    def load(on_load):
        core = make_decoder_core(
            decoder,
            num_blocks=NUM_BLOCKS,
            token_bytes=opened.chat.token_bytes,
            eos_ids=opened.chat.eos_ids,
        )
        return core, ReadyEvent("tiny", "cpu", "float32", NUM_BLOCKS * BLOCK, 0.1)

    engine = Engine(load)
    made = ChatService(store=Store.open(database_path), engine=engine, model=model)
    recorder = Recorder()
    made.subscribe(recorder)
    engine.start()
    yield made, recorder
    made.close()


def test_measuring_costs_the_answer_and_forking_less_than_a_block(service):
    chats, recorder = service
    chat = chats.new_chat(system="you are a helpful assistant of the lazy dog")
    for number, text in enumerate(("what is the capital?", "0123456789" * 12), start=1):
        turn = chats.send(chat.id, text, sampling=GREEDY)
        recorder.wait_for(TurnEnded, count=number)
    ended = recorder.wait_ended(turn.id)
    (answered,) = [t for t in (chats.transcript(chat.id)[-1].turn,) if t is not None]
    ids = unpack(answered.token_ids or b"")

    view = chats.tokens.view(turn.id).result(WAIT_S)

    assert [token.token_id for token in view.tokens] == list(ids)
    # greedy: the likeliest token at every place is the one that was chosen
    assert all(token.candidates[0].token_id == token.token_id for token in view.tokens)
    assert view.new_tokens <= len(ids) + 1 < ended.usage.prompt_tokens // 2

    for place, count in ((37, 3), (20, 4)):
        other = view.tokens[place].candidates[3]
        fork = chats.fork_at_token(turn.id, place, other.token_id)
        end = recorder.wait_for(TurnEnded, count=count)
        begun = next(e for e in recorder.of(TurnPrefill) if e.chat_id == fork.id)
        assert begun.prompt_tokens == ended.usage.prompt_tokens + place + 1
        # the chosen token, and what follows the last whole block at most
        assert begun.prompt_tokens - begun.cached_tokens <= BLOCK
        assert end.error is None
        gone_on = chats.transcript(fork.id)[-1].turn
        assert gone_on is not None
        assert unpack(gone_on.token_ids or b"")[: place + 1] == (*ids[:place], other.token_id)


def test_the_chosen_token_leads_to_what_greedy_makes_of_it(service):
    chats, recorder = service
    chat = chats.new_chat()
    turn = chats.send(chat.id, "what is the capital?", sampling=GREEDY)
    recorder.wait_for(TurnEnded, count=1)
    fork = chats.fork_at_token(turn.id, 25)
    recorder.wait_for(TurnEnded, count=2)
    original, again = (chats.transcript(id_)[-1].turn for id_ in (chat.id, fork.id))
    assert original is not None and again is not None
    whole, gone_on = (unpack(t.token_ids or b"") for t in (original, again))
    assert gone_on[: len(whole)] == whole
