"""A question that no context holds is refused at once, and holds nobody up."""

from __future__ import annotations

from pathlib import Path

import pytest

from localpaged.errors import PromptTooLong
from localpaged.store.rows import TurnStatus
from testkit.builders import WAIT_S, make_service, ready_model
from testkit.fake_model import FakeChatModel

CONTEXT = 512


class CountingModel(FakeChatModel):
    """Counts the characters that it cuts into tokens."""

    num_chars = 0

    def render(self, messages, **options):
        """See ChatModel."""
        self.num_chars += sum(len(message.text) for message in messages)
        return super().render(messages, **options)


class RunsModel(CountingModel):
    """Puts a hundred equal characters into one token."""

    def render(self, messages, **options):
        """See ChatModel."""
        ids = super().render(messages, **options)
        return tuple(id_ for at, id_ in enumerate(ids) if at % 100 == 0 or id_ < 32)


@pytest.fixture
def opened(database_path: Path):
    model = CountingModel(context_length=CONTEXT)
    service, engine, recorder = make_service(database_path, model=ready_model(model))
    yield service, engine, recorder, model
    service.close()


def test_a_question_of_megabytes_is_refused_by_its_beginning(opened):
    service, engine, recorder, model = opened
    chat = service.new_chat()
    end = recorder.wait_ended(service.send(chat.id, "five million " * 400_000).id)
    assert end.status is TurnStatus.ERROR and isinstance(end.error, PromptTooLong)
    assert f"{len('five million ' * 400_000) - 1:,} characters" in end.error.message
    assert f"{CONTEXT} tokens at most" in end.error.message
    assert model.num_chars <= 8 * CONTEXT
    turn = service.send(chat.id, "short")
    engine.wait_submitted(1)
    engine.run_until_idle()
    assert recorder.wait_ended(turn.id).status is TurnStatus.DONE


def test_its_price_and_the_ways_on_are_not_counted_either(opened):
    service, _, recorder, model = opened
    with pytest.raises(PromptTooLong):
        service.count_tokens("x" * 1_000_000).result(WAIT_S)
    chat = service.new_chat()
    recorder.wait_ended(service.send(chat.id, "x" * 1_000_000).id)
    with pytest.raises(PromptTooLong):
        service.context.room(chat.id).result(WAIT_S)
    assert model.num_chars <= 3 * 8 * CONTEXT


def test_a_long_text_of_few_tokens_is_sent(database_path: Path):
    model = RunsModel(context_length=CONTEXT)
    service, engine, recorder = make_service(database_path, model=ready_model(model))
    turn = service.send(service.new_chat().id, "x" * 20_000)
    engine.wait_submitted(1)
    engine.run_until_idle()
    assert recorder.wait_ended(turn.id).status is TurnStatus.DONE
    end = recorder.wait_ended(service.send(service.new_chat().id, "x" * 300_000).id)
    assert isinstance(end.error, PromptTooLong)
    service.close()
