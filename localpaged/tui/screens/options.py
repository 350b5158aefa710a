"""A chat's own options: model, system prompt, sampling. An empty field is the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Button, Static, TextArea

from localpaged.abilities import EMBEDDED, Abilities
from localpaged.chat.sampling_options import OPTIONS, SamplingOption, with_overrides
from localpaged.engine.params import SamplingParams
from localpaged.errors import BadParameter
from localpaged.plain_text import visible
from localpaged.tui.compositor import Dialog
from localpaged.tui.figures import grouped
from localpaged.tui.screens.page import DIALOG_PERCENT
from localpaged.tui.screens.picker import Choice, PickerScreen
from localpaged.tui.widgets.line_input import LineInput
from localpaged.tui.widgets.text_box import TextBox

FULL_ROWS = 20
ROWS_AROUND = 9
"""Title, what is told below, the hint, and the space between them."""


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """What the dialog shows and returns. `model` empty is the default one."""

    model: str
    system: str
    overrides: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Offer:
    """What there is to choose from, and what it costs to change the system prompt.

    `abilities` tells what a model lets be set. `num_read_again` tokens follow the system prompt in
    the chat's memory.
    """

    defaults: SamplingParams
    models: Sequence[Choice]
    default_model: str
    num_read_again: int
    abilities: Callable[[str], Abilities] = lambda _: EMBEDDED


class OptionsScreen(Dialog[ChatOptions | None]):
    """Dismisses with the options, or None when all stays. Texts are shown literally.

    Invariant: `_model` is one of the offered models' ids.
    """

    AUTO_FOCUS = "#option-temperature"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "cancel", "Cancel", show=False),
        Binding("ctrl+s", "save", "Save", show=False, priority=True),
        Binding("ctrl+r", "reset", "Defaults", show=False, priority=True),
        Binding("down", "move(1)", "Next field", show=False, priority=True),
        Binding("up", "move(-1)", "Field before", show=False, priority=True),
    ]

    def __init__(self, options: ChatOptions, offer: Offer) -> None:
        super().__init__()
        self._options = options
        self._offer = offer
        self._model = options.model
        self._shown_system = options.system
        self._told = ""

    def compose(self) -> ComposeResult:
        """Model, system prompt, a row for each sampling parameter."""
        with Vertical(classes="dialog dialog-options"):
            yield Static(Content("Options of this chat"), classes="dialog-title")
            with VerticalScroll(can_focus=False):
                with Horizontal(classes="option-row"):
                    yield Static(Content("Model"), classes="option-label")
                    yield Button(Content(self._model_label), id="option-model", compact=True)
                with Horizontal(classes="option-row option-system"):
                    yield Static(Content("System prompt"), classes="option-label")
                    yield TextBox(
                        self._options.system, id="option-system", compact=True, tab_behavior="focus"
                    )
                for option in OPTIONS:
                    with Horizontal(classes="option-row"):
                        yield Static(Content(option.label), classes="option-label")
                        yield self._field(option)
                        yield Static(
                            Content(option.doc), classes="option-doc", id=f"doc-{option.name}"
                        )
            yield Static(id="option-note", classes="dialog-detail")
            yield Static(
                Content("Enter or ^S saves, ^R takes all defaults, Esc leaves it"),
                classes="dialog-hint",
            )

    def on_mount(self) -> None:
        """Tell what is wrong, or what it costs, from the start."""
        self._shown_system = self.query_one(TextBox).text
        # in line with the fields below it; a stylesheet takes no 0
        self.query_one("#option-model", Button).styles.line_pad = 0
        self._tell()

    def on_resize(self) -> None:
        """The rows scroll where not all fit; what is told below them stays in view."""
        height = self.app.size.height
        most = height * DIALOG_PERCENT // 100 - ROWS_AROUND
        self.query_one(VerticalScroll).styles.max_height = max(2, most)
        self.set_class(height < FULL_ROWS, "-low")
        self.call_after_refresh(self._reveal)

    def _reveal(self) -> None:
        if self.focused is not None:
            self.focused.scroll_visible(animate=False)

    def _field(self, option: SamplingOption) -> LineInput:
        default = option.text_of(getattr(self._offer.defaults, option.name)) or "none"
        is_own = option.name in self._options.overrides
        text = option.text_of(self._options.overrides[option.name]) if is_own else ""
        return LineInput(
            visible(text),
            placeholder=f"{visible(default)}  default",
            id=f"option-{option.name}",
            classes="option-field",
            compact=True,
        )

    @property
    def _model_label(self) -> str:
        if not self._model:
            return f"{visible(self._offer.default_model)}  default"
        return visible(self._model)

    # what the user does

    @on(LineInput.Changed)
    @on(TextArea.Changed)
    def _changed(self) -> None:
        self._tell()

    @on(LineInput.Submitted)
    def _submitted(self) -> None:
        self.action_save()

    @on(Button.Pressed)
    def _choose_model(self) -> None:
        def chosen(model: str | None) -> None:
            if model is not None:
                self._model = model
                self.query_one("#option-model", Button).label = Content(self._model_label)
                self._tell()

        self.app.push_screen(PickerScreen(self._offer.models, prompt="Which model answers"), chosen)

    def action_save(self) -> None:
        """Close with the options, unless one of them cannot be."""
        overrides, wrong = self._read()
        if wrong:
            self._tell()
            name = next(iter(wrong))
            self.query_one(f"#option-{name}").focus()
            return
        self.dismiss(ChatOptions(self._model, self._system, overrides))

    def action_reset(self) -> None:
        """Empty every field but the system prompt; the default model."""
        self._model = ""
        self.query_one("#option-model", Button).label = Content(self._model_label)
        for field in self.query(LineInput):
            field.value = ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """In the text of several lines Up and Down move in it."""
        return not (action == "move" and isinstance(self.focused, TextBox))

    def action_move(self, step: int) -> None:
        """Go to another field."""
        if step > 0:
            self.focus_next()
        else:
            self.focus_previous()

    def action_cancel(self) -> None:
        """Leave everything as it is."""
        self.dismiss(None)

    # what is written

    @property
    def _system(self) -> str:
        text = self.query_one(TextBox).text
        # the box makes all line ends alike; what nobody touched stays as it was
        return self._options.system if text == self._shown_system else text

    def _read(self) -> tuple[dict[str, Any], dict[str, str]]:
        """The values that are written, and what is wrong with some of them, by name."""
        overrides: dict[str, Any] = {}
        wrong: dict[str, str] = {}
        for option in OPTIONS:
            text = self.query_one(f"#option-{option.name}", LineInput).value
            if not text.strip():
                continue
            try:
                value = option.value_of(text)
                with_overrides(self._offer.defaults, {option.name: value})
            except BadParameter as error:
                wrong[option.name] = error.message
            else:
                overrides[option.name] = value
        return overrides, wrong

    def _show_abilities(self) -> dict[str, str]:
        """Grey out what the model does not know; return the reasons, by parameter."""
        abilities = self._offer.abilities(self._model)
        reasons = {}
        for option in OPTIONS:
            reason = abilities.why_not_set(option.name)
            doc = self.query_one(f"#doc-{option.name}", Static)
            if doc.has_class("-off") is not bool(reason):
                doc.update(Content(visible(reason) or option.doc))
                doc.set_class(bool(reason), "-off")
                self.query_one(f"#option-{option.name}").set_class(bool(reason), "-off")
            if reason:
                reasons[option.name] = reason
        return reasons

    def _tell(self) -> None:
        overrides, wrong = self._read()
        unknown = self._show_abilities()
        for option in OPTIONS:
            field = self.query_one(f"#option-{option.name}", LineInput)
            field.set_class(option.name in wrong, "-wrong")
        note = self.query_one("#option-note", Static)
        cost = self._offer.num_read_again
        text = next(iter(wrong.values()), "")
        if not text and cost and self._system != self._options.system:
            text = f"With another system prompt {grouped(cost)} tokens are read again."
        refused = [unknown[name] for name in overrides if name in unknown]
        if not text and refused:
            text = f"{refused[0]}; its messages are refused as long as it is set."
        note.set_class(bool(wrong), "-wrong")
        if text != self._told:
            self._told = text
            note.update(Content(visible(text)))
