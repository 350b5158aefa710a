"""The context is full: the ways on, each with its price. Nothing is cut without being chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from localpaged.chat.context_room import ContextRoom, ForkPlace
from localpaged.tui.compositor import Dialog
from localpaged.tui.figures import grouped
from localpaged.tui.markdown.line import STRONG, Role, Run
from localpaged.tui.paint import content_of
from localpaged.tui.screens.picker import TYPED

STOP, SLIDE, SUMMARISE, FORK = "stop", "slide", "summarise", "fork"


class ContextScreen(Dialog[str | None]):
    """Dismisses with SLIDE, SUMMARISE or FORK; None leaves everything as it is.

    It comes by itself, so who is typing must not choose: over the prompt a letter leaves everything
    as it is, and is the prompt's (TYPED and the letter); elsewhere it does nothing.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop here", show=False),
    ]

    def __init__(self, room: ContextRoom, *, is_over_prompt: bool = False) -> None:
        super().__init__()
        self._room = room
        self._is_over_prompt = is_over_prompt

    def compose(self) -> ComposeResult:
        """What is full, then the choices; the one that changes nothing is first."""
        with Vertical(classes="dialog dialog-picker dialog-wide"):
            yield Static(Content(headline(self._room)), classes="dialog-title")
            options = OptionList(*_options(self._room), compact=True, markup=False)
            options.highlighted = 0
            yield options
            if why := why_no_summary(self._room):
                yield Static(Content(why), classes="dialog-hint")
            yield Static(Content("Enter chooses, Esc stops here"), classes="dialog-hint")

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter or a click takes a way."""
        self.dismiss(None if event.option.id == STOP else event.option.id)

    def on_key(self, event: events.Key) -> None:
        """A letter is for the prompt."""
        if self._is_over_prompt and event.is_printable and event.character is not None:
            event.stop()
            event.prevent_default()
            self.dismiss(f"{TYPED}{event.character}")

    def action_stop(self) -> None:
        """Change nothing."""
        self.dismiss(None)


def headline(room: ContextRoom) -> str:
    """How full the chat is."""
    numbers = f"{grouped(room.prompt_tokens)} of {grouped(room.context_length)} tokens"
    if room.is_refused:
        return f"The question does not fit: {numbers}"
    if room.prompt_tokens + 1 >= room.context_length:
        return f"The answer is cut, the context is full: {numbers}"
    return f"Context: {numbers}"


def _options(room: ContextRoom) -> list[Option]:
    kept = "The question stays here without an answer" if room.is_refused else "Nothing changes"
    options = [_option(STOP, "Stop here", kept)]
    slide, summary = room.slide, room.summary
    if slide is not None:
        options.append(
            _option(
                SLIDE,
                "Go on without the oldest messages",
                f"{_messages(slide.num_hidden)} not shown to the model any more, "
                f"{grouped(slide.new_tokens)} tokens to be read again",
            )
        )
    if summary is not None:
        options.append(
            _option(
                SUMMARISE,
                "Go on with a summary of what was said",
                f"In a fork: the model sums up {_messages(summary.num_messages)}, "
                "which it has in memory",
            )
        )
    if room.places:
        options.append(_option(FORK, "Go back to an earlier answer", _fork_detail(room.places)))
    return options


def why_no_summary(room: ContextRoom) -> str:
    """Why a summary is not among the ways on; empty when it is."""
    if room.summary is not None:
        return ""
    if not room.places:
        return "No summary: there is no earlier answer to sum up."
    return "No summary: there is no room to write one and to go on after it."


def _fork_detail(places: Sequence[ForkPlace]) -> str:
    tokens = sorted({place.tokens for place in places if place.tokens is not None})
    detail = "In a fork that you choose the place of"
    if not tokens:
        return detail
    to = f" to {grouped(tokens[-1])}" if len(tokens) > 1 else ""
    return f"{detail}, with {grouped(tokens[0])}{to} tokens"


def _option(id_: str, label: str, detail: str) -> Option:
    runs = [Run(f"{label}\n", Role.TEXT, STRONG), Run(f"  {detail}", Role.DIM)]
    return Option(content_of(runs), id=id_)


def _messages(count: int) -> str:
    return "1 message" if count == 1 else f"{grouped(count)} messages"
