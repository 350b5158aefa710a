"""The engine of this process and the endpoints, as one EnginePort: each request goes to its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from localpaged.abilities import Ability
from localpaged.engine.inspection import BlockTokens, Inspection, PinView
from localpaged.engine.params import Request, RequestId
from localpaged.engine.port import EnginePort, Listener
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.errors import LocalPagedError

if TYPE_CHECKING:
    from localpaged.remote_models.engine import RemoteEngine
    from localpaged.remote_models.model import EndpointModel

T = TypeVar("T")


class RoutedEngine:
    """An EnginePort around two others. Any thread; nothing of it is changed after construction.

    Listeners are called on the engine's thread and on the remote one, for a request on one of them.
    """

    def __init__(
        self,
        local: EnginePort,
        remote: RemoteEngine,
        *,
        endpoint_of: Callable[[str], EndpointModel | None],
        default: EndpointModel | None = None,
    ) -> None:
        """`default` is the endpoint that "" means; without one it is the local default."""
        self._local = local
        self._remote = remote
        self._endpoint_of = endpoint_of
        self._default = "" if default is None else default.name

    def start_default(self) -> None:
        """Look whether the default endpoint answers, if there is one; add listeners before."""
        if self._default:
            self._remote.load(self._default, is_default=True)

    def add_listener(self, listener: Listener) -> None:
        """See EnginePort."""
        self._local.add_listener(listener)
        self._remote.add_listener(listener)

    def submit(self, request: Request) -> None:
        """See EnginePort."""
        name = request.model or self._default
        if self._endpoint_of(name) is None:
            self._local.submit(request)
        else:
            self._remote.submit(replace(request, model=name))

    def cancel(self, request_id: RequestId) -> None:
        """See EnginePort."""
        self._local.cancel(request_id)
        self._remote.cancel(request_id)

    def focus(self, chat_id: str) -> None:
        """See EnginePort."""
        self._local.focus(chat_id)

    def load(self, name: str) -> None:
        """See EnginePort."""
        if self._endpoint_of(name) is None:
            self._local.load(name)
        else:
            self._remote.load(name)

    def unload(self, name: str) -> None:
        """See EnginePort."""
        if self._endpoint_of(name) is None:
            self._local.unload(name)
        else:
            self._remote.unload(name)

    def snapshot(self, model: str = "") -> EngineSnapshot:
        """See EnginePort; that of an endpoint has no blocks."""
        endpoint = self._endpoint_of(model or self._default)
        if endpoint is None:
            return self._local.snapshot(model)
        return EngineSnapshot(model_name=endpoint.name, device=endpoint.endpoint.host)

    def inspect(self, model: str = "") -> Future[Inspection]:
        """See EnginePort; the future of an endpoint ends with ChatError, as those that follow."""
        return self._here(model, Ability.BLOCKS) or self._local.inspect(model)

    def block_tokens(self, block: int, model: str = "") -> Future[BlockTokens | None]:
        """See EnginePort."""
        return self._here(model, Ability.BLOCKS) or self._local.block_tokens(block, model)

    def pin(self, key: str, token_ids: tuple[int, ...], model: str = "") -> Future[PinView]:
        """See EnginePort."""
        return self._here(model, Ability.PIN) or self._local.pin(key, token_ids, model)

    def pin_branch(self, key: str, node_id: int, model: str = "") -> Future[PinView]:
        """See EnginePort."""
        return self._here(model, Ability.PIN) or self._local.pin_branch(key, node_id, model)

    def unpin(self, key: str, model: str = "") -> Future[PinView]:
        """See EnginePort."""
        return self._here(model, Ability.PIN) or self._local.unpin(key, model)

    def evict(self, node_id: int, offset: int = 0, model: str = "") -> Future[int]:
        """See EnginePort."""
        return self._here(model, Ability.PIN) or self._local.evict(node_id, offset, model)

    def close(self) -> None:
        """See EnginePort."""
        try:
            self._remote.close()
        finally:
            self._local.close()

    def _here(self, model: str, ability: Ability) -> Future[T] | None:
        """Return how a question about memory that is elsewhere ends; None when it is here."""
        endpoint = self._endpoint_of(model or self._default)
        if endpoint is None:
            return None
        refused: Future[T] = Future()
        try:
            endpoint.abilities.require(ability)
        except LocalPagedError as error:
            refused.set_exception(error)
        return refused
