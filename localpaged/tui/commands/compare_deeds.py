"""What is done with answers side by side: stop, keep, compare, vote, again, one more, write."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from localpaged.chat.differences import first_difference, word_diff
from localpaged.errors import LocalPagedError
from localpaged.store.rows import Turn
from localpaged.tui.compare.diff_lines import diff_runs, first_runs, legend_runs
from localpaged.tui.compare.lines import name_of
from localpaged.tui.compare.model import CompareModel, Pane
from localpaged.tui.glyphs import UNICODE, Glyphs
from localpaged.tui.keys import key_of
from localpaged.tui.markdown.line import Run
from localpaged.tui.screens.compare_dialogs import PageScreen
from localpaged.tui.screens.confirm import ConfirmScreen
from localpaged.tui.workspace import Workspace

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp


class CompareDeeds:
    """Does to the model, and to the service behind it, what the screen's keys ask. UI thread.

    What the service refuses is told to the user, and nothing is changed.
    """

    def __init__(
        self, app: LocalPagedApp, workspace: Workspace, glyphs: Glyphs, model: CompareModel
    ) -> None:
        self._app = app
        self._workspace = workspace
        self._glyphs = glyphs
        self._model = model
        self._deeds: dict[str, Callable[[], object]] = {
            "stop_others": self._stop_others,
            "stop_all": lambda: self._model.stop(self._model.panes),
            "keep": self._keep,
            "keep_all": self._keep_all,
            "diff": self._diff,
            "blind": self._blind,
            "vote": self._vote,
            "rerun": lambda: self._model.rerun(self._model.current),
            "more": self._model.add_sample,
            "resume": self._resume,
            "copy": self._copy,
        }

    def run(self, deed: str) -> None:
        """Do what a key of the screen asks for."""
        self._try(self._deeds[deed])

    def stop_current(self) -> bool:
        """Stop the selected answer; False when it does not run, or is stopping already."""
        answer = self._model.current.session.open_answer
        if answer is None or answer.is_stopping:
            return False
        return self._try(lambda: self._model.stop([self._model.current]))

    def keep_for_chat(self) -> str | None:
        """Keep the selected answer; return its chat, None when that could not be."""
        pane = self._model.current
        if not pane.is_kept and not self._try(lambda: self._model.toggle_kept(pane)):
            return None
        self._workspace.refresh()
        return pane.chat.id

    def send(self, text: str) -> bool:
        """Send a message to the panes it is for; False when it stays where it was written."""
        return self._try(lambda: self._model.send(text))

    def ask_to_delete(self, deleted: Callable[[], object]) -> None:
        """Delete the compare and what was not kept of it, if the user says so again."""

        def answered(is_yes: bool | None) -> None:
            compares = self._app.service.compares
            if is_yes and self._try(lambda: compares.delete(self._model.compare.id)):
                deleted()

        number = len(self._model.panes) - len(self._model.kept)
        answers = "1 answer is" if number == 1 else f"{number} answers are"
        self._app.push_screen(
            ConfirmScreen(
                "Delete this compare?",
                f"{answers} deleted with it. What you kept stays as chats.",
                yes="Delete",
                no="Keep",
            ),
            answered,
        )

    def _stop_others(self) -> None:
        if not self._model.stop_others():
            self._app.tell("No other answer runs.")

    def _keep(self) -> None:
        is_kept = self._model.toggle_kept(self._model.current)
        self._workspace.refresh()
        self._app.tell("Kept as a chat." if is_kept else "Not in the list of chats any more.")

    def _keep_all(self) -> None:
        self._model.keep_all()
        self._workspace.refresh()
        self._app.tell(f"All {len(self._model.panes)} answers are kept as chats.")

    def _blind(self) -> None:
        if self._model.toggle_blind():
            self._app.tell(f"Which is which is hidden until you vote ({key_of('compare_vote')}).")

    def _vote(self) -> None:
        was_blind = self._model.compare.is_blind
        name_before = self._name(self._model.current)
        self._model.vote()
        name = self._name(self._model.current)
        told = f"{name_before} is {name}." if was_blind else f"Your vote for {name} is saved."
        self._app.tell(told)

    def _resume(self) -> None:
        if not self._model.resume(self._model.current):
            self._app.tell("There is nothing to continue.")

    def _copy(self) -> None:
        answer = self._model.current.last
        if answer is None or not answer.text:
            self._app.tell("There is no answer to copy yet.")
            return
        self._app.copy_text(answer.body, "answer")

    def _diff(self) -> None:
        """Compare two panes: at once when there are two, else after one was chosen before."""
        model = self._model
        if len(model.panes) < 2:
            self._app.tell("There is one answer only.")
            return
        if len(model.panes) == 2:
            self._show_diff(*model.panes)
        elif model.diff_from is None or model.diff_from is model.current:
            is_chosen = model.diff_from is None
            model.diff_from = model.current if is_chosen else None
            if is_chosen:
                self._app.tell(
                    f"Select another answer; {key_of('compare_diff')} shows the differences."
                )
        else:
            pair = sorted((model.diff_from, model.current), key=model.panes.index)
            model.diff_from = None
            self._show_diff(*pair)

    def _show_diff(self, left: Pane, right: Pane) -> None:
        texts = [_text(left), _text(right)]
        if not all(texts):
            self._app.tell("Both answers need some text to differ in.")
            return
        turns = [self._turn(left), self._turn(right)]
        pair = (turns[0], turns[1]) if turns[0] is not None and turns[1] is not None else None
        first = first_difference(texts[0], texts[1], turns=pair)
        if first is None:
            self._app.tell("The two answers are the same.")
            return
        places = [self._model.panes.index(pane) + 1 for pane in (left, right)]
        names = [f"{n} {self._name(p)}" for n, p in zip(places, (left, right), strict=True)]
        has_marks = self._glyphs is not UNICODE or self._app.no_color
        pieces = list(word_diff(texts[0], texts[1]))
        self._app.push_screen(
            PageScreen(
                [Run(f"{names[0]} and {names[1]}: "), *first_runs(first)],
                diff_runs(pieces, self._glyphs, has_marks=has_marks),
                legend_runs(*names, has_marks=has_marks),
            )
        )

    def _turn(self, pane: Pane) -> Turn | None:
        """Return the row of a pane's newest answer, with its token ids."""
        turns = [e.turn for e in self._app.service.transcript(pane.chat.id) if e.turn is not None]
        return turns[-1] if turns else None

    def _name(self, pane: Pane) -> str:
        place = self._model.panes.index(pane)
        return name_of(pane, place, self._model, self._workspace.engine)

    def _try(self, deed: Callable[[], object]) -> bool:
        try:
            deed()
        except LocalPagedError as error:
            self._app.tell_error(error)
            return False
        return True


def _text(pane: Pane) -> str:
    return pane.last.body if pane.last is not None else ""
