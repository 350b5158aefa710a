"""Events reach every subscriber; the model's state also reaches one that comes late."""

from localpaged.chat.events import ChatEvent, ModelFailed, ModelLoading, SavingRecovered
from localpaged.chat.publisher import Publisher
from localpaged.engine.events import LoadEvent
from localpaged.errors import ModelNotFound

FAILED = ModelFailed(ModelNotFound("There is no model."))


def test_who_subscribes_after_the_model_failed_learns_of_it() -> None:
    publisher = Publisher()
    publisher.publish(ModelLoading(LoadEvent("weights")), FAILED)
    publisher.publish(SavingRecovered())
    received: list[tuple[ChatEvent, ...]] = []
    publisher.subscribe(received.append)
    assert received == [(FAILED,)]


def test_a_broken_subscriber_does_not_keep_events_from_the_others() -> None:
    publisher = Publisher()
    received: list[tuple[ChatEvent, ...]] = []

    def broken(events: tuple[ChatEvent, ...]) -> None:
        raise RuntimeError("gone")

    publisher.subscribe(broken)
    publisher.subscribe(received.append)
    publisher.publish(FAILED)
    publisher.publish()
    assert received == [(FAILED,)]
