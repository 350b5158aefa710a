"""KV memory through the chat service: what is pinned of a chat, what is told, what ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.engine.inspection import BlockState
from localpaged.engine.params import BLOCK_SIZE_TOKENS
from localpaged.errors import ChatError, EngineStopped, NoRoom, NotInHistory
from testkit.cached_chats import Chatting
from testkit.fake_model import FakeChatModel

SYSTEM = "You are a careful librarian who knows every book."


@pytest.fixture
def chatting(tmp_path: Path):
    made = Chatting(tmp_path / "chats.db").begin(system=SYSTEM)
    yield made
    made.service.close()


def test_a_pinned_chat_keeps_what_its_next_prompt_begins_with(chatting):
    chatting.ask()
    chatting.ask("And of Spain?")
    memory = chatting.service.memory
    pin = memory.pin_chat(chatting.chat.id).result(10)
    pinned = chatting.engine.kv.pins.get(f"chat {chatting.chat.id}")
    chatting.ask("And of Portugal?")
    prompt = chatting.engine.submitted[-1].prompt_ids
    tokens = tuple(token for key in pinned.keys for token in key)
    assert tokens == prompt[: len(tokens)] and len(tokens) >= len(prompt) - 2 * BLOCK_SIZE_TOKENS
    assert pin.num_blocks == len(pinned.keys)
    assert memory.inspect().result(10).count(BlockState.PINNED) == len(pinned.blocks)


def test_the_system_text_is_pinned_before_a_first_prompt_needs_it(chatting):
    memory = chatting.service.memory
    pin = memory.pin_chat(chatting.chat.id, is_system_only=True).result(10)
    assert (pin.num_blocks, pin.num_held) == (len(SYSTEM) // BLOCK_SIZE_TOKENS, 0)
    chatting.ask()
    assert memory.inspect().result(10).count(BlockState.PINNED) == pin.num_blocks
    assert memory.unpin_chat(chatting.chat.id).result(10) == pin.num_blocks
    assert memory.unpin_chat(chatting.chat.id).result(10) == 0


def test_what_a_template_puts_in_place_of_a_system_text_is_pinned(tmp_path):
    model = FakeChatModel(preamble="You are a helpful AI assistant named SmolLM.")
    chatting = Chatting(tmp_path / "default.db", model=model).begin(system="")
    pin = chatting.service.memory.pin_chat(chatting.chat.id, is_system_only=True).result(10)
    assert pin.num_blocks == len(model.preamble) // BLOCK_SIZE_TOKENS
    chatting.service.close()


def test_a_running_chat_is_pinned_with_its_question(chatting):
    chatting.service.send(chatting.chat.id, "What is a colophon, and who needs one?")
    prompt = chatting.engine.wait_submitted(1).prompt_ids
    pin = chatting.service.memory.pin_chat(chatting.chat.id).result(10)
    assert pin.num_blocks == len(prompt) // BLOCK_SIZE_TOKENS


def test_what_cannot_be_pinned_is_refused(chatting):
    memory = chatting.service.memory
    empty = chatting.service.new_chat()
    with pytest.raises(ChatError, match="nothing in it to keep"):
        memory.pin_chat(empty.id).result(10)
    with pytest.raises(ChatError, match="no system text"):
        memory.pin_chat(empty.id, is_system_only=True).result(10)
    with pytest.raises(NotInHistory):
        memory.pin_chat("nobody").result(10)
    chatting.engine.reserved_blocks = 256
    with pytest.raises(NoRoom, match="one full context needs 256"):
        memory.pin_chat(chatting.chat.id).result(10)


def test_blocks_tell_their_text_and_their_chats(chatting):
    chatting.ask()
    memory = chatting.service.memory
    seen = memory.inspect().result(10)
    node = seen.nodes[0]
    assert node.chats == (chatting.chat.id,)
    tokens = memory.tokens(node.blocks[0]).result(10)
    assert tokens is not None and memory.spell(tokens.token_ids).startswith("<system>You are a car")
    assert memory.evict(node.id).result(10) == len(seen.nodes[0].blocks)
    assert memory.tokens(node.blocks[0]).result(10) is None


def test_no_question_waits_for_an_engine_that_is_closed(chatting):
    chatting.ask()
    memory = chatting.service.memory
    chatting.engine.close()
    for future in (memory.inspect(), memory.pin_chat(chatting.chat.id), memory.evict(1)):
        with pytest.raises(EngineStopped):
            future.result(10)
    chatting.service.close()
    with pytest.raises(ChatError, match="closed"):
        memory.pin_chat(chatting.chat.id).result(10)
