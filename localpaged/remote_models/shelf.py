"""Endpoints beside the models of this machine, on one shelf."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from localpaged.chat.models import ListedModel, ModelShelf, is_address
from localpaged.errors import ConfigError, ModelError
from localpaged.prompt import ChatModel

if TYPE_CHECKING:
    from localpaged.remote.endpoint import Endpoint
    from localpaged.remote_models.model import EndpointModel


class RemoteShelf:
    """A ModelShelf around that of this machine. Any thread.

    Invariant: an endpoint has one EndpointModel in a run; a name stands for one model.
    """

    def __init__(self, local: ModelShelf, endpoints: Sequence[Endpoint]) -> None:
        self._local = local
        self._endpoints = tuple(endpoints)
        self._lock = threading.Lock()
        self._models: dict[str, EndpointModel] = {}

    def open_default(self, choice: str) -> EndpointModel | None:
        """Return the endpoint that a run begins with; None when it is a model of this machine.

        Raises ConfigError for an address that cannot be.
        """
        endpoint = self._find(choice)
        return None if endpoint is None else self.model_of(endpoint)

    def open(self, choice: str) -> Future[ChatModel]:
        """See ModelShelf. An endpoint is open at once: what keeps it from answering comes later."""
        if (known := self._models.get(choice)) is not None:
            return opened(known)  # by its address first: turns have its name
        endpoint = self._find(choice)
        if endpoint is None:
            return self._local.open(choice)
        if any(listed.name == choice for listed in self._local.listed()):
            raise ModelError(
                f"{choice} is a model on this machine and an endpoint of the config file.",
                hint=f"Give the section [remote.{choice}] another name.",
            )
        return opened(self.model_of(endpoint))

    def is_endpoint(self, choice: str) -> bool:
        """See WithEndpoints."""
        try:
            return choice in self._models or self._find(choice) is not None
        except ConfigError:
            return False

    def listed(self) -> Sequence[ListedModel]:
        """See ModelShelf: endpoints of the config file come last."""
        return [
            *self._local.listed(),
            *(ListedModel(endpoint.name, 0, endpoint.host) for endpoint in self._endpoints),
        ]

    def model_of(self, endpoint: Endpoint) -> EndpointModel:
        """Return the one model that an endpoint is in this run."""
        from localpaged.remote_models.model import EndpointModel

        with self._lock:
            return self._models.setdefault(endpoint.name, EndpointModel(endpoint))

    def _find(self, choice: str) -> Endpoint | None:
        if not self._endpoints and not is_address(choice):
            return None
        # late: most runs have nothing to do with endpoints
        from localpaged.remote.endpoint import find_endpoint

        return find_endpoint(choice, self._endpoints)

    def endpoint_of(self, name: str) -> EndpointModel | None:
        """Return an endpoint that was opened, by its name; None for a model of this machine."""
        return self._models.get(name)


def opened(model: EndpointModel) -> Future[ChatModel]:
    """Return the future of a model that is open."""
    future: Future[ChatModel] = Future()
    future.set_result(model)
    return future
