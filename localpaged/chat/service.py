"""ChatService: chats, turns and answers. What the UI, `ask`, the server and benchmarks share."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import EllipsisType

from localpaged.chat.asking import Asking
from localpaged.chat.branching import Branching
from localpaged.chat.chat_options import Overrides, configured, sampling_of
from localpaged.chat.compare import Compares
from localpaged.chat.context import ChatContext
from localpaged.chat.errors import answered_elsewhere, chat_is_deleted, chats_are_closed
from localpaged.chat.events import SavingFailed, SavingRecovered
from localpaged.chat.feed import EngineFeed
from localpaged.chat.history import ChatHistory
from localpaged.chat.live import LiveTurn, LiveTurns
from localpaged.chat.memory import ChatMemory
from localpaged.chat.models import ModelChoice, Models, ModelShelf
from localpaged.chat.price import counted
from localpaged.chat.publisher import Publisher, Subscriber
from localpaged.chat.runner import TurnRunner
from localpaged.chat.title import one_line
from localpaged.chat.tokens import ChatTokens
from localpaged.chat.transcript import transcript
from localpaged.engine.params import SamplingParams
from localpaged.engine.port import EnginePort
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.errors import StoreError
from localpaged.prompt import ChatModel
from localpaged.store.rows import Chat, Exchange, Turn
from localpaged.store.store import Store, new_id
from localpaged.store.text import storable
from localpaged.store.tree import make_message
from localpaged.store.writes import Write, change_chat


class ChatService:
    """Calls return at once; work happens on the service's own worker thread, results are events.

    Owns the store and the engine from construction on: `close` closes both. Any thread.
    """

    def __init__(
        self,
        *,
        store: Store,
        engine: EnginePort,
        model: Future[ChatModel],
        shelf: ModelShelf | None = None,
        sampling: SamplingParams | None = None,
    ) -> None:
        """`sampling` is what chats begin with, `model` what answers those that chose none."""
        self.default_sampling = sampling or SamplingParams()
        self._store = store
        self._engine = engine
        self._publisher = Publisher()
        self._live = LiveTurns()
        self._models = Models(engine=engine, default=model, shelf=shelf)
        self.abilities = self._models.abilities
        self._runner = TurnRunner(
            store=store,
            engine=engine,
            models=self._models,
            live=self._live,
            publisher=self._publisher,
        )
        self.memory = ChatMemory(
            store=store, engine=engine, models=self._models, run_soon=self._runner.run_soon
        )
        feed = EngineFeed(
            live=self._live,
            models=self._models,
            writer=store.writer,
            publisher=self._publisher,
            ends=self._runner,
        )
        # What a chat is asked is decided by one caller at a time, so that order is what it seems.
        self._intake = threading.Lock()
        self._is_closed = False
        self._asking = Asking(
            store=store,
            live=self._live,
            intake=self._intake,
            open_chat=self._open_chat,
            begin=self._begin,
            sampling_of=self.sampling_of,
            abilities=self.abilities,
        )
        self._branching = Branching(
            store=store,
            live=self._live,
            runner=self._runner,
            intake=self._intake,
            open_chat=self._open_chat,
            submit=self._submit,
            sampling_of=self.sampling_of,
        )
        self.history = ChatHistory(
            store=store, live=self._live, intake=self._intake, submit=self._submit
        )
        self.compares = Compares(
            store=store,
            live=self._live,
            models=self._models,
            runner=self._runner,
            intake=self._intake,
            submit=self._submit,
            sampling=self.default_sampling,
            transcript=self.transcript,
        )
        self.context = ChatContext(
            store=store,
            live=self._live,
            models=self._models,
            run_soon=self._runner.run_soon,
            intake=self._intake,
            submit=self._submit,
        )
        self._publisher.subscribe(self.context.receive)
        self.tokens = ChatTokens(
            store=store,
            live=self._live,
            engine=engine,
            models=self._models,
            run_soon=self._runner.run_soon,
            begin=self._begin,
            limit_of=self.context.limit_of,
        )
        store.writer.on_failing = self._saving_failed
        store.writer.on_recovered = self._saving_recovered
        self._runner.start()
        engine.add_listener(feed.on_events)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with every batch of events, on the thread where they happen."""
        self._publisher.subscribe(subscriber)

    # chats

    def chats(self) -> Sequence[Chat]:
        """Every chat, the latest used first, deleted ones left out."""
        return self._store.chats()

    def recent_questions(self, *, limit: int = 100) -> Sequence[str]:
        """What was asked in any chat, each text once, the latest last; reads the disk."""
        return self._store.recent_questions(limit=limit)

    def history_version(self) -> int:
        """A number that changes when this or another program saved something; same thread only."""
        return self._store.data_version()

    def latest_chat(self) -> Chat | None:
        """Return the chat that was used last; None when there is none."""
        return next(iter(self._store.chats()), None)

    def transcript(self, chat_id: str) -> Sequence[Exchange]:
        """The chat's messages from the first to the tip, open answer included."""
        known = {live.turn.id: live.row() for live in self._live.of_chat(chat_id)}
        begun = [turn.id for turn in known.values() if turn.question is None]
        tree = self._store.chat_tree(chat_id, answering=begun[-1] if begun else "")
        return transcript(*tree, self._live, known)

    def new_chat(self, *, title: str = "", system: str = "") -> Chat:
        """Make a chat. Without a title it is named after its first message."""
        now = time.time()
        root = make_message(None, "system", system) if system else None
        chat = Chat(
            id=new_id(),
            title=one_line(storable(title)),
            tip_hash=None if root is None else root.hash,
            model="",
            draft="",
            created_at=now,
            updated_at=now,
        )
        self._submit(Write(messages=() if root is None else (root,), new_chats=(chat,)))
        return chat

    def rename(self, chat_id: str, title: str) -> None:
        """Give a chat another title."""
        self._store.chat(chat_id)
        self._submit(Write(chat_changes=(change_chat(chat_id, title=one_line(storable(title))),)))

    def configure(
        self,
        chat_id: str,
        *,
        options: Overrides | None = None,
        system: str | EllipsisType | None = ...,
        model: str | None = None,
    ) -> Chat:
        """Change what a chat's next answers are made with; return the chat as it will be.

        `options` replaces all sampling parameters that the chat has of its own, by their names.
        `system` None is the conversation's own system text, "" is none; `model` "" is the default.
        Raises NotInHistory, and BadParameter for options that cannot be.
        """
        chat = self._store.chat(chat_id)
        change = configured(
            chat_id, defaults=self.default_sampling, options=options, system=system, model=model
        )
        if change.columns:
            self._submit(Write(chat_changes=(change,)))
        return change.applied_to(chat)

    def sampling_of(self, chat: Chat) -> SamplingParams:
        """What a chat's next answer is sampled with, unless the caller has something else."""
        return sampling_of(chat, self.default_sampling)

    def delete(self, chat_id: str) -> None:
        """Take a chat out of the list; its running answer is stopped. `restore` undoes it."""
        with self._intake:
            self._store.chat(chat_id)
            self._submit(Write(chat_changes=(change_chat(chat_id, deleted_at=time.time()),)))
            self.memory.kept.forget(chat_id)
            for live in reversed(self._live.of_chat(chat_id)):
                self._runner.stop(live)

    def restore(self, chat_id: str) -> Chat:
        """Undo `delete`."""
        chat = self._store.chat(chat_id)
        self._submit(Write(chat_changes=(change_chat(chat_id, deleted_at=None),)))
        return replace(chat, deleted_at=None)

    def save_draft(self, chat_id: str, text: str) -> None:
        """Keep what is typed but not sent."""
        draft = Write(chat_changes=(change_chat(chat_id, draft=text),))
        self._store.writer.submit_soon(f"draft:{chat_id}", draft)

    # answers

    def send(
        self,
        chat_id: str,
        text: str,
        *,
        sampling: SamplingParams | None = None,
        is_foreground: bool = True,
    ) -> Turn:
        """Save `text` as the chat's next message, then have it answered.

        Returns the queued turn at once. It is durable before the model runs, and waits behind an
        answer that runs. Raises NotInHistory, and ChatError for nothing to send or nowhere to.
        """
        return self._asking.send(chat_id, text, sampling=sampling, is_foreground=is_foreground)

    def continue_turn(
        self, turn_id: str, *, chat_id: str = "", sampling: SamplingParams | None = None
    ) -> Turn:
        """Go on with an answer that was stopped, cut by its length or interrupted by a crash.

        It is the same turn again, open, and its text so far is `partial_text`; in a fork, which
        `chat_id` names, it is a turn of its own. Raises NotInHistory, and ChatError when the
        answer is complete or not its chat's last.
        """
        return self._asking.continue_turn(turn_id, chat_id=chat_id, sampling=sampling)

    def regenerate(
        self, turn_id: str, *, chat_id: str = "", sampling: SamplingParams | None = None
    ) -> Turn:
        """Have an answer's question answered once more; the answer stays as a sibling.

        `chat_id` names the chat when it is a fork of the one that has the turn. An answer that
        runs is stopped first, and what waits behind it follows the new one. It gets a seed of its
        own. Raises NotInHistory, and ChatError when the chat cannot be answered now.
        """
        return self._branching.regenerate(turn_id, chat_id=chat_id, sampling=sampling)

    def edit(
        self, chat_id: str, message_hash: str, text: str, *, sampling: SamplingParams | None = None
    ) -> Turn:
        """Ask `text` in the place of a question, which stays as a sibling with all that followed.

        A running answer is treated as by `regenerate`. Raises NotInHistory and ChatError.
        """
        return self._branching.edit(chat_id, message_hash, text, sampling=sampling)

    def show_sibling(self, chat_id: str, message_hash: str, step: int) -> str | None:
        """Show the version of a line that is `step` places later, and what was said last below it.

        Return its hash; None when there is none so late or early. Raises NotInHistory, and
        ChatError while the chat is answering or when there is one version only.
        """
        return self._branching.show_sibling(chat_id, message_hash, step)

    def fork(self, chat_id: str, at_hash: str) -> Chat:
        """Make a chat that begins with the messages up to `at_hash`; it costs a row.

        At a question the new chat ends before it and has its text as draft. Raises NotInHistory,
        and ChatError for a message that is not the chat's.
        """
        return self._branching.fork(chat_id, at_hash)

    def fork_at_token(
        self, turn_id: str, num_tokens: int, next_token_id: int | None = None
    ) -> Chat:
        """Go on from inside an answer in a chat of its own, all before it being in memory.

        The new chat's answer begins with the first `num_tokens` tokens of the turn's, then
        `next_token_id`, and runs at once. Raises NotInHistory, ModelNotFound, and ChatError for a
        place the answer does not have or a token that ends it.
        """
        with self._intake:
            return self.tokens.fork(turn_id, num_tokens, next_token_id)

    def stop(self, turn_id: str) -> None:
        """End an answer and keep its text."""
        live = self._live.get(turn_id)
        if live is not None:
            self._runner.stop(live)

    def is_answering(self, chat_id: str) -> bool:
        """Whether this program has an answer of the chat to make."""
        return bool(self._live.of_chat(chat_id))

    def end_left_open(self, chat_id: str) -> bool:
        """End answers of the chat whose program died; whether there were any. A quick read."""
        return self._store.end_left_open(chat_id)

    def set_unread(self, chat_id: str, *, is_unread: bool) -> None:
        """Keep whether a chat ended an answer that nobody has looked at."""
        self._submit(Write(chat_changes=(change_chat(chat_id, is_unread=is_unread),)))

    def focus(self, chat_id: str) -> None:
        """Tell the engine which chat the user looks at: it is served before the others."""
        self.memory.look_at(chat_id)

    def snapshot(self, model: str = "") -> EngineSnapshot:
        """The engine's latest picture of a model, "" being the default; empty if not loaded."""
        return self._engine.snapshot("" if model == self._models.default_name else model)

    def count_tokens(self, text: str, *, model: str = "") -> Future[int]:
        """Count what `text` adds to a message for a model, which may still be being opened.

        Raises ModelNotFound.
        """
        return counted(self._models.find(model), text)

    def models(self) -> Sequence[ModelChoice]:
        """What can answer, the default first; a look into a folder. Raises ModelError."""
        return self._models.choices()

    def load_model(self, choice: str) -> None:
        """Load a model before it is needed; events tell how it goes. Raises ModelNotFound."""
        self._models.load(choice)

    def unload_model(self, name: str) -> None:
        """Let a further model and its memory go; its answers fail. Raises ChatError."""
        self._models.unload(name)

    def close(self) -> None:
        """Stop every answer, save everything, end the threads. A second call does nothing."""
        with self._intake:
            if self._is_closed:
                return
            self._is_closed = True
        self._runner.stop_all()
        try:
            self._engine.close()
        finally:
            self._runner.close()
            if (failure := self._store.close()) is not None:
                self._publisher.publish(SavingFailed(failure))

    # inside

    def _begin(self, live: LiveTurn, write: Write) -> None:
        self._live.add(live)
        self._runner.begin(live, self._submit(write))

    def _submit(self, write: Write) -> Future[None]:
        self._check_not_closed()
        return self._store.submit(write)

    def _check_not_closed(self) -> None:
        if self._is_closed:
            raise chats_are_closed()

    def _open_chat(self, chat_id: str) -> Chat:
        self._check_not_closed()
        chat = self._store.chat(chat_id)
        if chat.deleted_at is not None:
            raise chat_is_deleted(chat)
        if self._store.is_answered_elsewhere(chat_id):
            hint = "Wait until it is done there, or start a new chat."
            raise answered_elsewhere(chat, hint=hint)
        self._store.end_left_open(chat_id)
        return chat

    def _saving_failed(self, error: StoreError) -> None:
        self._publisher.publish(SavingFailed(error))

    def _saving_recovered(self) -> None:
        self._publisher.publish(SavingRecovered())
