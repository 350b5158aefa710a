"""KV memory of a scripted engine: the real pool and tree, filled with what chats were answered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from localpaged.engine import inspector
from localpaged.engine.block_pool import NUM_RESERVED_BLOCKS
from localpaged.engine.inspection import BlockTokens, Inspection, PinView
from localpaged.engine.kv_manager import KVManager
from localpaged.engine.params import BLOCK_SIZE_TOKENS, Request
from localpaged.engine.sequence import Sequence
from localpaged.errors import LocalPagedError

BLOCK_BYTES = 360 * 1024
T = TypeVar("T")


class ScriptedMemory:
    """Answers the questions of EnginePort at once. Any thread.

    `clock_s` is moved by tests; `running` are sequences that hold their blocks.
    """

    def __init__(self, total_blocks: int) -> None:
        self.clock_s = 0.0
        self.num_inspections = 0
        self.kv = KVManager(total_blocks, block_size=BLOCK_SIZE_TOKENS, clock=lambda: self.clock_s)
        self.running: list[Sequence] = []
        self.reserved_blocks = total_blocks // 4
        self._lock = threading.RLock()

    def why_stopped(self) -> LocalPagedError | None:
        """Return why there is no engine any more."""
        return None

    def hold(self, chat_id: str, ids: tuple[int, ...]) -> Sequence:
        """Compute a sequence for a chat and let it go on running."""
        request = Request(f"{chat_id}/{len(self.running)}", ids, chat_id=chat_id)
        sequence = Sequence(
            request, sequence_id=len(self.running), seed=0, block_size=BLOCK_SIZE_TOKENS
        )
        with self._lock:
            assert self.kv.admit(sequence, num_tokens=len(ids), reserved_blocks=0)
            self.kv.advance(sequence, sequence.num_todo)
            self.running.append(sequence)
        return sequence

    def let_go(self, sequence: Sequence) -> None:
        """End a sequence; its full blocks stay cached."""
        with self._lock:
            self.running.remove(sequence)
            self.kv.release(sequence)

    def remember(self, chat_id: str, ids: tuple[int, ...]) -> None:
        """Compute a sequence for a chat and keep its blocks cached, as far as there is room."""
        if 0 < len(ids) <= self.kv.num_available * BLOCK_SIZE_TOKENS:
            self.let_go(self.hold(chat_id, ids))

    def inspect(self, model: str = "") -> Future[Inspection]:
        """See EnginePort."""
        self.num_inspections += 1
        return self._tell(
            lambda: inspector.inspect(
                self.kv,
                self.running,
                now_s=self.clock_s,
                context_blocks=self.reserved_blocks,
                model_name="fake-model",
                block_bytes=BLOCK_BYTES,
            )
        )

    def block_tokens(self, block: int, model: str = "") -> Future[BlockTokens | None]:
        """See EnginePort."""
        assert 0 <= block < self.kv.pool.num_blocks + NUM_RESERVED_BLOCKS
        return self._tell(lambda: inspector.block_tokens(self.kv, self.running, block))

    def pin(self, key: str, token_ids: tuple[int, ...], model: str = "") -> Future[PinView]:
        """See EnginePort."""

        def do() -> PinView:
            self.kv.pin(key, token_ids, reserved_blocks=self.reserved_blocks)
            return inspector.pin_view(self.kv, key)

        return self._tell(do)

    def pin_branch(self, key: str, node_id: int, model: str = "") -> Future[PinView]:
        """See EnginePort."""

        def do() -> PinView:
            self.kv.pin_branch(key, node_id, reserved_blocks=self.reserved_blocks)
            return inspector.pin_view(self.kv, key)

        return self._tell(do)

    def unpin(self, key: str, model: str = "") -> Future[PinView]:
        """See EnginePort."""

        def do() -> PinView:
            view = inspector.pin_view(self.kv, key)
            self.kv.unpin(key)
            return view

        return self._tell(do)

    def evict(self, node_id: int, offset: int = 0, model: str = "") -> Future[int]:
        """See EnginePort."""
        return self._tell(lambda: self.kv.evict_branch(node_id, offset))

    def _tell(self, question: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        if (stopped := self.why_stopped()) is not None:
            future.set_exception(stopped)
            return future
        try:
            with self._lock:
                future.set_result(question())
        except LocalPagedError as error:
            future.set_exception(error)
        return future
