"""Everything the UI shows, without a screen: all chats, the current one, the engine's state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from localpaged.chat.models import name_of
from localpaged.tui import told
from localpaged.tui.context_use import fills_context, mark_endpoint, mark_full
from localpaged.tui.fork_tree import by_family
from localpaged.tui.importing import Importing
from localpaged.tui.session import Draft, SessionModel

if TYPE_CHECKING:
    from localpaged.chat.service import ChatService
    from localpaged.engine.events import LoadEvent, ReadyEvent
    from localpaged.errors import LocalPagedError
    from localpaged.store.rows import Chat

SCANNED_CHATS = 40


@dataclass(slots=True)
class EngineStatus:
    """Where the model stands: loading (`stage`), ready or failed; and whether history is saved.

    `stage`, `ready` and `failure` are of the default model. Of the further ones, by name, `stages`
    has those that load and `readies` those that answer. `serving` is where other programs can ask
    the engine, as HOST:PORT or, on this machine alone, :PORT; empty when they cannot.
    """

    stage: LoadEvent | None = None
    ready: ReadyEvent | None = None
    failure: LocalPagedError | None = None
    saving_failure: LocalPagedError | None = None
    stages: dict[str, LoadEvent] = field(default_factory=dict)
    readies: dict[str, ReadyEvent] = field(default_factory=dict)
    serving: str = ""

    def ready_of(self, model_name: str) -> ReadyEvent | None:
        """What is known of a loaded model; of the default one when no other has that name."""
        return self.readies.get(model_name, self.ready)

    def take_further(
        self, event: told.ModelLoading | told.ModelReady | told.ModelFailed | told.ModelUnloaded
    ) -> None:
        """Apply an event of a model that is not the default one."""
        self.stages.pop(event.model_name, None)
        if isinstance(event, told.ModelLoading):
            self.stages[event.model_name] = event.event
        elif isinstance(event, told.ModelReady):
            self.readies[event.model_name] = event.event
        else:
            self.readies.pop(event.model_name, None)


@dataclass(slots=True)
class Changes:
    """What a batch of events touched."""

    chat_ids: set[str] = field(default_factory=set)
    to_resume: list[SessionModel] = field(default_factory=list)
    ended: list[told.TurnEnded] = field(default_factory=list)
    missing: list[told.TurnModelMissing] = field(default_factory=list)
    away: list[LocalPagedError] = field(default_factory=list)
    has_ended: bool = False
    is_engine: bool = False


class Workspace:
    """The chats in the order of the sidebar, and which one is shown. UI thread only.

    Invariant: `current` is one of `sessions`, or a chat that is not saved yet. Before `attach` it
    is the latter, and nothing is asked of the service.
    """

    _service: ChatService

    def __init__(self, *, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self.sessions: list[SessionModel] = []
        self.current = SessionModel()
        self.engine = EngineStatus()
        self.imports: list[Importing] = []
        # branches of compares: in no list, but their answers run like others
        self._watched: dict[str, SessionModel] = {}
        self._watched_to_end: set[str] = set()
        self._history_version: int | None = None

    def attach(self, service: ChatService) -> None:
        """Work with the chats of `service` from now on; once."""
        self._service = service

    @property
    def listed(self) -> list[SessionModel]:
        """What the sidebar lists: a chat that is not saved yet first."""
        is_new = self.current not in self.sessions
        return [self.current, *self.sessions] if is_new else self.sessions

    @property
    def last_used(self) -> SessionModel | None:
        """The chat that was used last, wherever in the tree of forks it is listed."""
        saved = [session.chat for session in self.sessions if session.chat is not None]
        latest = max(saved, key=lambda chat: (chat.updated_at, chat.id), default=None)
        return None if latest is None else self.find(latest.id)

    @property
    def running(self) -> list[SessionModel]:
        """Chats the engine works for."""
        hidden = [session for id_, session in self._watched.items() if self.find(id_) is None]
        return [session for session in [*self.listed, *hidden] if session.is_running]

    def watch(self, session: SessionModel) -> None:
        """Feed a session that is in no list, or is shown elsewhere as well, with its events."""
        self._watched[session.id] = session
        self._watched_to_end.discard(session.id)

    def unwatch(self, session: SessionModel) -> None:
        """Stop feeding it; one that runs is told of as running until it ends."""
        if session.is_running:
            self._watched_to_end.add(session.id)
        else:
            self._watched.pop(session.id, None)

    @property
    def chosen_model(self) -> str:
        """The model that the current chat chose, as the engine calls it; "" is the default."""
        chat = self.current.chat
        return "" if chat is None else name_of(chat.model)

    def find(self, chat_id: str) -> SessionModel | None:
        """The chat of that id, listed or shown."""
        known = (session for session in self.listed if session.id == chat_id)
        return next(known, None)

    def refresh(self) -> None:
        """Take titles and order from the service; what is known of each chat stays."""
        known = {session.id: session for session in self.sessions}
        if self.current.id:
            known.setdefault(self.current.id, self.current)
        sessions = [_renewed(known.get(chat.id), chat) for chat in self._service.chats()]
        self.sessions = by_family(sessions)

    def follow_history(self) -> bool:
        """Refresh if something was saved since, by this program or another; return whether."""
        version = self._service.history_version()
        has_changed = version != self._history_version
        if has_changed:
            self._history_version = version
            self.refresh()
        return has_changed

    def open(self, session: SessionModel) -> None:
        """Show a chat; its transcript is read when it was not yet."""
        if not session.is_loaded:
            session.load(self._service.transcript(session.id))
            mark_full(session, self.engine)
        self._set_unread(session, False)
        self._show(session)

    def is_changed_elsewhere(self) -> bool:
        """Whether another program wrote in the current chat since it was read."""
        session = self.current
        if session.chat is None or not session.is_loaded or session.editing is not None:
            return False
        if self._service.is_answering(session.id):
            return False
        if session.open_answer is None:
            return session.chat.tip_hash != session.seen_tip
        # an answer that is open, but not here, grows without the tip, or its program died
        self._service.end_left_open(session.id)
        return True

    def _set_unread(self, session: SessionModel, is_unread: bool) -> None:
        """Note that a chat is to be looked at, or was; it is so after a restart, too."""
        if session.is_unread != is_unread:
            session.is_unread = is_unread
            self._service.set_unread(session.id, is_unread=is_unread)

    def open_new(self) -> None:
        """Show an empty chat; it is saved with its first message or draft."""
        if not (self.current.is_empty and self.current.chat is None):
            self._show(SessionModel())

    def _show(self, session: SessionModel) -> None:
        self.current = session
        self._service.focus(session.id)

    def save_chat(self, session: SessionModel) -> None:
        """Give a new chat its place in the history."""
        if session.chat is None:
            session.chat = self._service.new_chat()
            self.sessions.insert(0, session)

    def send(self, text: str) -> None:
        """Send a message in the current chat: saved and answered by the service, echoed here."""
        session = self.current
        self.save_chat(session)
        session.add_sent(text, self._service.send(session.id, text))
        # sending cleared the draft, named the chat and moved it up
        session.draft, session.saved_draft = Draft(), ""
        self.refresh()

    def resume(self, session: SessionModel) -> bool:
        """Go on with a chat's last answer, or do so when it has stopped; False when it cannot."""
        answer = session.last_answer
        if answer is not None and answer.is_open and answer.is_stopping:
            answer.is_resume_asked = True
            return True
        if answer is None or not answer.can_continue:
            return False
        session.reopen(self._service.continue_turn(answer.turn.id, chat_id=session.id))
        return True

    def stop(self) -> bool:
        """Stop the current chat's running answer; False when none runs."""
        answer = self.current.open_answer
        if answer is not None:
            self._service.stop(answer.turn.id)
            answer.is_stopping = True
        return answer is not None

    def leave_import(self) -> bool:
        """End the import that was begun last; False when none is under way."""
        going_on = [each for each in self.imports if not each.is_left]
        for each in going_on[-1:]:
            each.is_left = True
        return bool(going_on)

    def rename(self, session: SessionModel, title: str) -> None:
        """Give a chat another title."""
        self.save_chat(session)
        self._service.rename(session.id, title)
        self.refresh()
        if session not in self.sessions:
            session.chat = self._service.history.store.chat(session.id)

    def configure(self, session: SessionModel, **changes: Any) -> None:
        """Change a chat's own options, as `ChatService.configure` takes them."""
        self.save_chat(session)
        session.chat = self._service.configure(session.id, **changes)
        if "system" in changes:
            session.show_system(session.chat.system or "")

    def delete(self, session: SessionModel) -> None:
        """Take a chat out of the list and show its neighbour when it was shown."""
        self.take_out(session, lambda: self._service.delete(session.id))

    def take_out(self, session: SessionModel, deed: Callable[[], object]) -> None:
        """Do what takes a chat off the list; where it was shown, show its neighbour."""
        position = self.sessions.index(session) if session in self.sessions else 0
        deed()
        if session in self.sessions:
            self.sessions.remove(session)
        if self.current is session:
            self._show(SessionModel())
            if self.sessions:
                self.open(self.sessions[min(position, len(self.sessions) - 1)])

    def restore(self, session: SessionModel) -> None:
        """Undo `delete`; the chat is shown again."""
        chat = self._service.restore(session.id)
        session.chat = chat
        # a running answer was stopped by the deletion: read what became of it
        session.is_loaded = False
        self.sessions.insert(0, session)
        self.refresh()
        self.open(session)

    def save_draft(self, session: SessionModel) -> None:
        """Keep what is typed in a chat, if it is not kept yet."""
        full = session.unsent
        if full == session.saved_draft:
            return
        if session.chat is None:
            self.save_chat(session)
        self._service.save_draft(session.id, full)
        session.saved_draft = full

    async def note_unopened(self) -> None:
        """Learn how the last answers of recent chats ended, without waiting for the disk."""
        for session in self.sessions[:SCANNED_CHATS]:
            if not session.is_loaded:
                exchanges = await asyncio.to_thread(self._service.transcript, session.id)
                session.note_status(exchanges)

    def take(self, events: Iterable[told.ChatEvent]) -> Changes:
        """Apply a batch of events."""
        changes = Changes()
        listed = {session.id: session for session in self.listed}
        for event in events:
            if isinstance(event, told.TurnPrefill | told.TurnText | told.TurnEnded):
                self._take_turn(event, changes, listed.get(event.chat_id))
            elif isinstance(event, told.TurnModelMissing):
                changes.missing.append(event)
            elif isinstance(event, told.TurnCacheReport):
                if (session := listed.get(event.chat_id)) is not None:
                    session.take_report(event)
            else:
                self._take_engine(event)
                changes.is_engine = True
                if isinstance(event, told.ModelFailed) and self._is_default_away(event):
                    changes.away.append(event.error)
        return changes

    def _is_default_away(self, event: told.ModelFailed) -> bool:
        """Whether the default model is an endpoint that did not answer: the next message tries."""
        ready = self.engine.ready
        return ready is not None and ready.is_endpoint and event.model_name == ready.model_name

    def _take_turn(
        self,
        event: told.TurnPrefill | told.TurnText | told.TurnEnded,
        changes: Changes,
        session: SessionModel | None,
    ) -> None:
        if (watched := self._watched.get(event.chat_id)) is not None:
            watched.take(event, now_s=self._clock_s())
            changes.chat_ids.add(event.chat_id)
            if event.chat_id in self._watched_to_end and not watched.is_running:
                self._watched_to_end.discard(event.chat_id)
                del self._watched[event.chat_id]
        if session is None:
            return
        session.take(event, now_s=self._clock_s())
        changes.chat_ids.add(event.chat_id)
        if isinstance(event, told.TurnEnded):
            changes.has_ended = True
            self._set_unread(session, session is not self.current)
            session.seen_tip = None
            changes.ended.append(event)
            answer = session.answer(event.turn_id)
            if answer is not None:
                ready = self.engine.ready_of(answer.turn.model)
                answer.is_context_full = fills_context(event, ready)
                mark_endpoint(answer, ready)
            if answer is not None and answer.is_resume_asked:
                answer.is_resume_asked = False
                changes.to_resume.append(session)

    def _take_engine(self, event: told.ChatEvent) -> None:
        engine = self.engine
        match event:
            case told.ModelUnloaded():
                engine.take_further(event)
            case told.ModelLoading() | told.ModelReady() | told.ModelFailed() if event.model_name:
                engine.take_further(event)
            case told.ModelLoading():
                engine.stage = event.event
            case told.ModelReady():
                engine.ready, engine.failure, engine.stage = event.event, None, None
            case told.ModelFailed():
                engine.failure, engine.stage = event.error, None
            case told.SavingFailed():
                engine.saving_failure = event.error
            case told.SavingRecovered():
                engine.saving_failure = None
            case _:
                raise AssertionError(f"unknown event {event!r}")


def _renewed(session: SessionModel | None, chat: Chat) -> SessionModel:
    if session is None:
        return SessionModel(chat)
    session.chat = chat
    if session.seen_tip is None:
        session.seen_tip = chat.tip_hash
    return session
