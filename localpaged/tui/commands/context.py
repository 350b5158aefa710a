"""When a chat has filled its context: the ways on, and the view that hides what came before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from localpaged.chat.context_room import SUMMARY_REQUEST, ContextRoom, Summary
from localpaged.chat.events import TurnEnded
from localpaged.store.rows import Chat, TurnStatus
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.commands.chats import ChatCommands
from localpaged.tui.commands.drafts import DraftCommands
from localpaged.tui.context_use import mark_full
from localpaged.tui.figures import grouped
from localpaged.tui.screens.context import FORK, SLIDE, SUMMARISE, ContextScreen
from localpaged.tui.screens.picker import TYPED, Choice, PickerScreen
from localpaged.tui.session import SessionModel

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen


@dataclass(frozen=True, slots=True)
class _Pending:
    """A question that waits for a summary."""

    question: str
    rest: tuple[str, ...]


class ContextCommands(CommandGroup):
    """Acts on the current chat's context. UI thread only.

    Invariant: `_pending` has a question for every turn that is to write a summary.
    """

    def __init__(
        self, app: LocalPagedApp, screen: ChatScreen, chats: ChatCommands, drafts: DraftCommands
    ) -> None:
        super().__init__(app, screen)
        self._chats = chats
        self._drafts = drafts
        self._pending: dict[str, _Pending] = {}

    def show(self, *, is_asked: bool = True) -> None:
        """Count the ways on, then offer them; not asked for, only to who is not writing."""
        session = self._workspace.current
        if session.chat is None:
            self._app.tell("Nothing has been asked here yet.")
            return
        self._app.awaited.when_done(
            self._app.service.context.room(session.id),
            partial(self._offer, session, is_asked=is_asked),
            self._app.tell_error,
        )

    def show_all(self) -> None:
        """Show the model the whole chat again."""
        session = self._workspace.current
        if session.chat is None or session.chat.view_hash is None:
            self._app.tell("The model is shown the whole chat.")
        elif self._try(lambda: self._app.service.context.begin_view(session.id, None)):
            self._read_again(session)
            self._app.tell("The model is shown the whole chat again.")

    def ended(self, events: Iterable[TurnEnded]) -> None:
        """Go on after a summary; offer the ways on where an answer found no room."""
        for event in events:
            session = self._workspace.find(event.chat_id)
            pending = self._pending.pop(event.turn_id, None)
            if session is None:
                continue
            if pending is not None:
                self._follow_summary(session, event, pending)
                continue
            answer = session.answer(event.turn_id)
            is_full = answer is not None and answer.is_context_full
            # who is writing already is told by the line under the answer
            if is_full and session is self._workspace.current and not self._prompt.text:
                self.show(is_asked=False)

    # inside

    def _offer(self, session: SessionModel, room: ContextRoom, *, is_asked: bool) -> None:
        answer = session.answer(room.turn_id)
        if answer is not None and room.is_refused:
            answer.turn = replace(answer.turn, prompt_tokens=room.prompt_tokens)
        if session is not self._workspace.current or self._app.screen is not self._screen:
            return
        if not is_asked and (self._prompt.text or not _has_ways(room)):
            return  # who writes, or has nothing to choose from, is told by the line below the chat

        if _has_room(room):
            told = "What the model is shown" if _is_cut_off(session) else "The whole chat"
            used, limit = grouped(room.prompt_tokens), grouped(room.context_length)
            self._app.tell(f"{told} fits: {used} of {limit} tokens.")
            return

        def chosen(choice: str | None) -> None:
            if choice == SLIDE:
                self._try(lambda: self._slide(session, room))
            elif choice == SUMMARISE and room.summary is not None:
                self._try(partial(self._summarise, room, room.summary))
            elif choice == FORK:
                self._choose_place(room)
            elif choice is not None and choice.startswith(TYPED):
                self._prompt.insert(choice.removeprefix(TYPED))

        is_over_prompt = self._prompt.has_focus
        self._app.push_screen(ContextScreen(room, is_over_prompt=is_over_prompt), chosen)

    def _slide(self, session: SessionModel, room: ContextRoom) -> None:
        assert room.slide is not None
        self._app.service.context.begin_view(session.id, room.slide.view_hash)
        self._read_again(session)
        if self._workspace.resume(session):
            self._transcript.advance(self._screen.moment)
        self._transcript.follow()
        self._screen.redraw()

    def _choose_place(self, room: ContextRoom) -> None:
        places = list(reversed(room.places))
        choices = [
            Choice(
                str(number),
                place.question,
                "" if place.tokens is None else f"{grouped(place.tokens)} tok",
            )
            for number, place in enumerate(places)
        ]

        def chosen(number: str | None) -> None:
            if number is not None:
                self._try(partial(self._fork, room, places[int(number)].at_hash))

        self._app.push_screen(PickerScreen(choices, prompt="Go on after the answer to"), chosen)

    def _fork(self, room: ContextRoom, at_hash: str) -> None:
        session = self._open(self._app.service.fork(room.chat_id, at_hash))
        self._send(session, room.question)

    def _summarise(self, room: ContextRoom, summary: Summary) -> None:
        service = self._app.service
        chat = service.fork(room.chat_id, summary.at_hash)
        session = self._open(chat)
        sampling = replace(
            service.sampling_of(chat), max_tokens=summary.answer_tokens, min_tokens=0
        )
        turn = service.send(chat.id, SUMMARY_REQUEST, sampling=sampling)
        # the summary is the same chat going on, not one about summaries
        service.rename(chat.id, chat.title)
        self._pending[turn.id] = _Pending(room.question, summary.rest_hashes)
        session.add_sent(SUMMARY_REQUEST, turn)
        self._show_sent()

    def _follow_summary(self, session: SessionModel, event: TurnEnded, pending: _Pending) -> None:
        if event.status is not TurnStatus.DONE:
            self._app.tell("There is no summary; the question waits in the chat it was asked in.")
            return

        def go_on() -> None:
            self._app.service.context.follow_summary(
                session.id, summary_id=event.turn_id, rest=pending.rest
            )
            self._read_again(session)
            self._send(session, pending.question)

        self._try(go_on)

    def _open(self, chat: Chat) -> SessionModel:
        self._workspace.refresh()
        session = self._workspace.find(chat.id)
        assert session is not None, "a new chat is listed"
        self._chats.go_to(session)
        return session

    def _send(self, session: SessionModel, text: str) -> None:
        session.add_sent(text, self._app.service.send(session.id, text))
        self._workspace.refresh()
        if session is self._workspace.current:
            self._show_sent()

    def _show_sent(self) -> None:
        self._transcript.advance(self._screen.moment)
        self._transcript.follow()
        self._screen.redraw()

    def _read_again(self, session: SessionModel) -> None:
        """Take the transcript anew: its view begins elsewhere, or it has other messages."""
        self._workspace.refresh()
        self._transcript.forget(session)
        is_current = session is self._workspace.current
        if is_current:
            self._drafts.keep()
        session.load(self._app.service.transcript(session.id))
        mark_full(session, self._workspace.engine)
        if is_current:
            self._screen.show_current()


def _has_room(room: ContextRoom) -> bool:
    """Whether nothing is full and nothing could be left out."""
    is_full = room.is_refused or room.prompt_tokens + 1 >= room.context_length
    return not is_full and not _has_ways(room)


def _is_cut_off(session: SessionModel) -> bool:
    return session.chat is not None and session.chat.view_hash is not None


def _has_ways(room: ContextRoom) -> bool:
    return bool(room.slide or room.summary or room.places)
