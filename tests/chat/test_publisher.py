"""Events reach every subscriber; the model's state also reaches one that comes late."""

import threading

from localpaged.chat.events import ChatEvent, ModelFailed, ModelLoading, SavingRecovered
from localpaged.chat.publisher import Publisher
from localpaged.engine.events import LoadEvent
from localpaged.errors import ModelNotFound

LOADING = ModelLoading(LoadEvent("weights"))
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


def test_a_model_that_failed_is_not_said_to_load_by_an_engine_that_is_late() -> None:
    publisher = Publisher()
    received: list[ChatEvent] = []
    publisher.subscribe(received.extend)
    publisher.publish(FAILED)
    publisher.publish(LOADING)
    publisher.publish(LOADING, SavingRecovered())
    publisher.subscribe(received.extend)
    assert received == [FAILED, SavingRecovered(), FAILED]


def test_a_late_subscriber_gets_nothing_older_after_something_newer() -> None:
    publisher = Publisher()
    received: list[ChatEvent] = []
    publisher.publish(LOADING)
    publishing = threading.Thread(target=publisher.publish, args=(FAILED,))

    def subscriber(events: tuple[ChatEvent, ...]) -> None:
        if events == (LOADING,):
            publishing.start()
            publishing.join(timeout=0.2)  # it has to wait for the end of this call
        received.extend(events)

    publisher.subscribe(subscriber)
    publishing.join()
    assert received == [LOADING, FAILED]
