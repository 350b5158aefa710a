"""A compare as the screen sees it: panes fed by chat events, one of them selected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from localpaged.chat.compare import Branch, Comparison
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.store.rows import Chat, Compare
from localpaged.tui.session import Answer, Question, SessionModel

if TYPE_CHECKING:
    from localpaged.chat.service import ChatService


@dataclass(slots=True, eq=False)
class Pane:
    """One answer: its chat from the prompt on, and the KV blocks it was last seen with."""

    chat: Chat
    session: SessionModel
    shared_blocks: int = 0
    own_blocks: int = 0

    @property
    def is_kept(self) -> bool:
        """Whether the chat is in the list."""
        return not self.chat.is_hidden

    @property
    def first(self) -> Answer | None:
        """The answer to what all panes were asked."""
        return next((e for e in self.session.entries if isinstance(e, Answer)), None)

    @property
    def last(self) -> Answer | None:
        """The newest answer."""
        return self.session.last_answer


class CompareModel:
    """The panes in their order, and what is done with them. UI thread only.

    Invariant: `selected` is a place of `panes`; every pane's session is among the watched ones of
    the workspace, so that events reach it whether it is shown or not.
    """

    def __init__(
        self,
        service: ChatService,
        comparison: Comparison,
        *,
        watch: Callable[[SessionModel], None],
    ) -> None:
        self._service = service
        self._watch = watch
        self.compare: Compare = comparison.compare
        self.num_before = comparison.num_before
        self.panes: list[Pane] = []
        self.selected = 0
        self.is_zoomed = False
        self.diff_from: Pane | None = None
        self._take(comparison)

    @property
    def current(self) -> Pane:
        """The selected pane."""
        return self.panes[self.selected]

    @property
    def kept(self) -> list[Pane]:
        """The panes whose chats are in the list."""
        return [pane for pane in self.panes if pane.is_kept]

    @property
    def addressed(self) -> list[Pane]:
        """Whom a follow-up goes to: the kept ones, or all while none is kept."""
        return self.kept or self.panes

    @property
    def is_running(self) -> bool:
        """Whether any answer is being made."""
        return any(pane.session.open_answer is not None for pane in self.panes)

    def select(self, place: int) -> None:
        """Select a pane; places beyond the ends are the ends."""
        self.selected = max(0, min(len(self.panes) - 1, place))

    def place_of(self, session: SessionModel) -> int | None:
        """Return the place of the pane that shows a session."""
        return next((n for n, pane in enumerate(self.panes) if pane.session is session), None)

    # what is done

    def stop(self, panes: Sequence[Pane]) -> int:
        """Stop the answers of some panes and keep their texts; return how many ran."""
        running = [a for pane in panes if (a := pane.session.open_answer) is not None]
        for answer in running:
            self._service.stop(answer.turn.id)
            answer.is_stopping = True
        return len(running)

    def stop_others(self) -> int:
        """Stop all answers but the selected one."""
        return self.stop([pane for pane in self.panes if pane is not self.current])

    def toggle_kept(self, pane: Pane) -> bool:
        """Put a pane's chat into the list, or take it out; return whether it is kept now."""
        is_kept = not pane.is_kept
        self._service.compares.keep(pane.chat.id, is_kept=is_kept)
        pane.chat = replace(pane.chat, is_hidden=not is_kept)
        return is_kept

    def keep_all(self) -> None:
        """Put every pane's chat into the list."""
        for pane in self.panes:
            if not pane.is_kept:
                self.toggle_kept(pane)

    def send(self, text: str) -> int:
        """Send a message to the panes it is for; return how many those are."""
        addressed = self.addressed
        for pane in addressed:
            turn = self._service.send(pane.chat.id, text, is_foreground=False)
            pane.session.add_sent(text, turn)
        return len(addressed)

    def rerun(self, pane: Pane) -> None:
        """Have a pane's newest answer made anew; the old one stays as a sibling."""
        answer = pane.last
        if answer is None:
            return
        turn = self._service.regenerate(answer.turn.id, chat_id=pane.chat.id)
        position = pane.session.entries.index(answer)
        pane.session.entries[position] = Answer(turn)

    def resume(self, pane: Pane) -> bool:
        """Go on with an answer that broke off; False when there is nothing to continue."""
        answer = pane.last
        if answer is None or answer.is_open or not answer.can_continue:
            return False
        pane.session.reopen(self._service.continue_turn(answer.turn.id, chat_id=pane.chat.id))
        return True

    def add_sample(self) -> None:
        """Have the prompt answered once more, as in the selected pane."""
        self._take(self._service.compares.add(self.compare.id, like=self.current.chat.id))
        self.selected = len(self.panes) - 1

    def vote(self) -> None:
        """Say that the selected answer is the best one; names are told from now on."""
        self.compare = self._service.compares.vote(self.compare.id, self.current.chat.id)

    def toggle_blind(self) -> bool:
        """Hide which model is which, and shuffle, or tell it; return whether it is hidden."""
        current = self.current
        is_blind = not self.compare.is_blind
        self.compare = self._service.compares.set_blind(self.compare.id, is_blind)
        places = {chat_id: place for place, chat_id in enumerate(self.compare.chat_ids)}
        self.panes.sort(key=lambda pane: places.get(pane.chat.id, len(places)))
        self.selected = self.panes.index(current)
        return is_blind

    def look(self, snapshots: Sequence[EngineSnapshot]) -> None:
        """Note which blocks the panes have; what was once shared was computed once, and counts."""
        views = {view.chat_id: view for seen in snapshots for view in seen.sequences}
        for pane in self.panes:
            view = views.get(pane.chat.id)
            num_blocks = 0 if view is None else view.shared_blocks + view.own_blocks
            if view is not None and num_blocks:
                pane.shared_blocks = min(num_blocks, max(pane.shared_blocks, view.shared_blocks))
                pane.own_blocks = num_blocks - pane.shared_blocks

    def _take(self, comparison: Comparison) -> None:
        """Take the branches that have no pane yet."""
        self.compare = comparison.compare
        known = {pane.chat.id for pane in self.panes}
        for branch in comparison.branches:
            if branch.chat.id not in known:
                pane = Pane(branch.chat, _session(branch, comparison.compare))
                self.panes.append(pane)
                self._watch(pane.session)


def _session(branch: Branch, compare: Compare) -> SessionModel:
    """Return the chat from the prompt on; the prompt itself stands above all panes."""
    session = SessionModel(branch.chat)
    session.load(branch.exchanges)
    first = session.entries[0] if session.entries else None
    if isinstance(first, Question) and first.text == compare.prompt:
        del session.entries[0]
    return session
