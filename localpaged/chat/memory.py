"""KV memory as a user of chats sees it: what lies where, what stays, what goes. No widgets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TypeVar

from localpaged.abilities import Ability, abilities_of
from localpaged.chat.errors import NO_PROMPT, unexpected
from localpaged.chat.kept_kv import KeptKV
from localpaged.chat.models import Models, opened_model
from localpaged.chat.prompting import chat_prefix, system_prefix
from localpaged.engine.inspection import BlockTokens, Inspection, PinView
from localpaged.engine.port import EnginePort
from localpaged.errors import ChatError, LocalPagedError
from localpaged.prompt import ChatModel
from localpaged.store.store import Store

BRANCH_PIN, CHAT_PIN, SYSTEM_PIN = "branch ", "chat ", "system "

T = TypeVar("T")


class ChatMemory:
    """Asks the engine and, for texts, the models. Any thread; every wait is a future.

    Pins last as long as the engine's memory does: none survives the end of the program.
    """

    def __init__(
        self,
        *,
        store: Store,
        engine: EnginePort,
        models: Models,
        run_soon: Callable[[Callable[[], None]], None],
    ) -> None:
        """`run_soon` runs on the chat worker's thread what may take long."""
        self._store = store
        self._engine = engine
        self._models = models
        self._run_soon = run_soon
        self.kept = KeptKV(store=store, models=models, run_soon=run_soon)

    def look_at(self, chat_id: str) -> None:
        """Have a chat served before the others, and its KV brought back from files."""
        self._engine.focus(chat_id)
        self.kept.look_at(chat_id)

    def inspect(self, model: str = "") -> Future[Inspection]:
        """Look at every block of a model's memory; see EnginePort."""
        return self._engine.inspect(model)

    def tokens(self, block: int, model: str = "") -> Future[BlockTokens | None]:
        """Ask for the tokens of one block."""
        return self._engine.block_tokens(block, model)

    def spell(self, ids: Sequence[int], model: str = "") -> str:
        """Return what a person reads in these ids; nothing while the model is not open."""
        opened = self._models.find(model)
        is_open = opened.done() and not opened.cancelled() and opened.exception() is None
        return opened.result().spell(ids) if is_open else ""

    def pin_branch(self, node_id: int, model: str = "") -> Future[PinView]:
        """Keep a branch of the prefix tree and all before it; the future may end with NoRoom."""
        return self._engine.pin_branch(f"{BRANCH_PIN}{node_id}", node_id, model)

    def unpin(self, key: str, model: str = "") -> Future[PinView]:
        """Let what a pin kept be evicted again."""
        return self._engine.unpin(key, model)

    def evict(self, node_id: int, offset: int = 0, model: str = "") -> Future[int]:
        """Give up what nobody uses of a branch and below it; see EnginePort."""
        return self._engine.evict(node_id, offset, model)

    def pin_chat(self, chat_id: str, *, is_system_only: bool = False) -> Future[PinView]:
        """Keep a chat's prompt so far, or its system text alone.

        The future may end with NoRoom, and with ChatError when there is nothing to keep.
        """
        key = f"{SYSTEM_PIN if is_system_only else CHAT_PIN}{chat_id}"

        def pin(model: ChatModel) -> Future[PinView]:
            prefix = system_prefix if is_system_only else chat_prefix
            ids = prefix(self._store, model, chat_id)
            if not ids:
                what = (
                    "no system text of its own" if is_system_only else "nothing in it to keep yet"
                )
                raise ChatError(f"The chat has {what}.")
            return self._engine.pin(key, ids, self._engine_name(model))

        return self._with_model_of(chat_id, pin)

    def unpin_chat(self, chat_id: str) -> Future[int]:
        """Let a chat's pins go, that of its system text too; tells how many blocks they kept."""

        def unpin(model: ChatModel) -> Future[int]:
            name = self._engine_name(model)
            first = self._engine.unpin(f"{SYSTEM_PIN}{chat_id}", name)
            done: Future[int] = Future()

            def total(second: Future[PinView]) -> None:
                _end(done, lambda: max(first.result().num_held, second.result().num_held))

            self._engine.unpin(f"{CHAT_PIN}{chat_id}", name).add_done_callback(total)
            return done

        return self._with_model_of(chat_id, unpin)

    def _engine_name(self, model: ChatModel) -> str:
        return "" if model.name == self._models.default_name else model.name

    def _with_model_of(self, chat_id: str, ask: Callable[[ChatModel], Future[T]]) -> Future[T]:
        """Ask with the model of a chat when it is open, on the worker's thread."""
        answer: Future[T] = Future()

        def begin() -> None:
            try:
                model = opened_model(self._models.find(self._store.chat(chat_id).model))
                abilities_of(model).require(Ability.PIN)
                asked = ask(model)
            except LocalPagedError as error:
                answer.set_exception(error)
            except Exception as error:  # whoever asked waits for an answer
                answer.set_exception(unexpected(NO_PROMPT, error))
            else:
                asked.add_done_callback(lambda done: _end(answer, done.result))

        try:
            self._run_soon(begin)
        except LocalPagedError as error:
            answer.set_exception(error)
        return answer


def _end(future: Future[T], result: Callable[[], T]) -> None:
    try:
        future.set_result(result())
    except LocalPagedError as error:
        future.set_exception(error)
