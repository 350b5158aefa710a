"""A chat's own options: the dialog, and the slash commands that change one of them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from localpaged.abilities import Ability
from localpaged.chat.models import is_address
from localpaged.chat.sampling_options import find_option, unpack_overrides
from localpaged.errors import BadParameter, LocalPagedError, ModelNotFound
from localpaged.plain_text import visible
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.figures import byte_size, grouped
from localpaged.tui.screens.confirm import ConfirmScreen
from localpaged.tui.screens.options import ChatOptions, Offer, OptionsScreen
from localpaged.tui.screens.picker import Choice, PickerScreen
from localpaged.tui.session import Question, SessionModel
from localpaged.tui.theme import NAMES, known_theme

if TYPE_CHECKING:
    from localpaged.chat.models import ModelChoice

SHOWN_CHARS = 40


class OptionCommands(CommandGroup):
    """Changes what the current chat's next answers are made with. UI thread only."""

    def edit(self) -> None:
        """Show all options of the chat."""
        session = self._workspace.current
        try:
            offer = self._offer()
        except LocalPagedError as error:
            self._app.tell_error(error)
            return
        model = "" if session.chat is None else session.chat.model
        before = ChatOptions(
            "" if model == offer.default_model else model,
            system_of(session),
            overrides_of(session),
        )

        def edited(after: ChatOptions | None) -> None:
            if after is None or after == before:
                return
            changes: dict[str, Any] = {"options": after.overrides}
            if after.system != before.system:
                changes["system"] = after.system
            if after.model != before.model:
                changes["model"] = after.model
            self._configure(session, "Options saved", **changes)

        self._app.push_screen(OptionsScreen(before, offer), edited)

    def choose_model(self) -> None:
        """Choose what answers this chat by typing a part of its name."""

        def chosen(model: str | None) -> None:
            if model is not None:
                self._use_model(model)

        self._try(
            lambda: self._app.push_screen(
                PickerScreen(self._offer().models, prompt="Which model answers"), chosen
            )
        )

    def use_model(self, name: str) -> bool:
        """Have the model of that name answer from now on."""
        try:
            known = self._app.service.models()
            if is_address(name):
                self._app.service.load_model(name)
            elif all(model.name != name for model in known):
                names = ", ".join(visible(model.name) for model in known) or "none"
                raise ModelNotFound(f"There is no model {name!r} here.", hint=f"There are {names}.")
        except LocalPagedError as error:
            self._app.tell_error(error)
            return False
        is_default = any(model.name == name and model.is_default for model in known)
        return self._use_model("" if is_default else name)

    def choose_loaded(self) -> None:
        """Choose a model to load beforehand."""
        models = self._app.service.models()
        others = [m.name for m in models if not (m.is_loaded or m.is_loading or m.endpoint)]
        self._choose(others, self.load_model, otherwise="Every model here is loaded.")

    def choose_unloaded(self) -> None:
        """Choose a model whose memory is given back."""
        models = self._app.service.models()
        loaded = [m.name for m in models if m.is_loaded and not (m.is_default or m.endpoint)]
        self._choose(loaded, self.unload_model, otherwise="No further model is loaded.")

    def _choose(self, names: list[str], use: Callable[[str], bool], *, otherwise: str) -> None:
        if not names:
            self._app.tell(otherwise)
            return

        def chosen(name: str | None) -> None:
            if name is not None:
                use(name)

        choices = [Choice(name, visible(name), "") for name in names]
        self._app.push_screen(PickerScreen(choices, prompt="Which model"), chosen)

    def choose_theme(self) -> None:
        """Choose how everything looks."""

        def chosen(name: str | None) -> None:
            if name is not None:
                self._app.use_theme(name)

        now = self._app.theme
        choices = [Choice(n, n, "now" if known_theme(n) == now else "") for n in NAMES]
        self._app.push_screen(PickerScreen(choices, prompt="Which look"), chosen)

    def load_model(self, name: str) -> bool:
        """Load a model before a chat needs it; the line over the prompt tells how it goes."""
        return self._try(lambda: self._app.service.load_model(name))

    def unload_model(self, name: str) -> bool:
        """Give the memory of a model back; a chat that needs it loads it again."""
        if reason := self._app.service.abilities(name).why_not(Ability.UNLOAD):
            self._app.tell(f"{reason}.", is_error=True)
            return False
        if all(model.name != name or not model.is_loaded for model in self._app.service.models()):
            self._app.tell(f"{visible(name)} is not loaded.", is_error=True)
            return False
        if not self._try(lambda: self._app.service.unload_model(name)):
            return False
        self._app.tell(f"{visible(name)} is unloaded; a chat that needs it loads it again.")
        return True

    def set_system(self, text: str) -> bool:
        """Give the chat another system prompt; tell first what it costs."""
        session = self._workspace.current
        cost = tokens_after_system(session)
        if text == system_of(session):
            self._app.tell("That is the system prompt.")
            return True
        if not cost:
            return self._configure(session, _system_told(text), system=text)

        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self._configure(session, _system_told(text), system=text)

        self._app.push_screen(
            ConfirmScreen(
                "Change the system prompt?",
                f"{grouped(cost)} tokens of this chat are read again.",
                yes="Change",
                no="Leave",
            ),
            answered,
        )
        return True

    def set_values(self, text: str) -> bool:
        """Set what `temp=0.7 top_p 0.9` says; an empty value behind `=` is the default."""
        session = self._workspace.current
        overrides = overrides_of(session)
        try:
            for name, value in _assignments(text):
                option = find_option(name)
                if value.strip():
                    overrides[option.name] = option.value_of(value)
                else:
                    overrides.pop(option.name, None)
        except BadParameter as error:
            self._app.tell_error(error)
            return False
        return self._configure(session, _overrides_told(overrides), options=overrides)

    def show_values(self) -> None:
        """Tell what the chat has of its own, and how to change it."""
        told = _overrides_told(overrides_of(self._workspace.current))
        self._app.tell(f"{told}  /set temp=0.7 changes it, /set temp= takes the default.")

    def set_seed(self, text: str) -> bool:
        """Set the seed; `random` takes a fresh one for every answer again."""
        seed = "" if text.strip().casefold() == "random" else text
        return self.set_values(f"seed={shlex.quote(seed)}")

    def _use_model(self, name: str) -> bool:
        told = f"{visible(name)} answers from now on" if name else "The default model answers"
        return self._configure(self._workspace.current, told, model=name)

    def _configure(self, session: SessionModel, told: str, **changes: Any) -> bool:
        if not self._try(lambda: self._workspace.configure(session, **changes)):
            return False
        if "system" in changes:
            self._transcript.forget(session)
            if session is self._workspace.current:
                self._transcript.show(session, self._screen.moment)
        self._screen.redraw()
        self._app.tell(told)
        return True

    def _offer(self) -> Offer:
        known = self._app.service.models()
        default = next((model.name for model in known if model.is_default), "no model yet")
        return Offer(
            defaults=self._app.service.default_sampling,
            models=[_choice(model) for model in known],
            default_model=default,
            num_read_again=tokens_after_system(self._workspace.current),
            abilities=self._app.service.abilities,
        )


def overrides_of(session: SessionModel) -> dict[str, Any]:
    """The sampling parameters that a chat has of its own."""
    return {} if session.chat is None else unpack_overrides(session.chat.options)


def system_of(session: SessionModel) -> str:
    """The system prompt that a chat has now; empty when there is none."""
    first = next(iter(session.entries), None)
    return first.text if isinstance(first, Question) and first.is_system else ""


def tokens_after_system(session: SessionModel) -> int:
    """About how many tokens are read again with another system prompt; 0 when nothing was read."""
    answer = session.last_answer
    if answer is None:
        return 0
    if answer.usage is not None:
        return answer.usage.prompt_tokens + answer.usage.completion_tokens
    return 0 if answer.prefill is None else answer.prefill.prompt_tokens + answer.token_count


def _choice(model: ModelChoice) -> Choice:
    notes = [byte_size(model.file_bytes)] if model.file_bytes else []
    if model.endpoint:
        notes = ["endpoint", visible(model.endpoint), *(["default"] if model.is_default else [])]
        return Choice("" if model.is_default else model.name, model.name, ", ".join(notes))
    notes += ["loaded"] if model.is_loaded else ["loading"] if model.is_loading else []
    notes += ["default"] if model.is_default else []
    return Choice("" if model.is_default else model.name, model.name, ", ".join(notes))


def _assignments(text: str) -> list[tuple[str, str]]:
    try:
        words = iter(shlex.split(text))
    except ValueError:
        raise BadParameter("A quotation mark is not closed.") from None
    pairs = []
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and not (value := next(words, "")):
            raise BadParameter(f"{word!r} sets nothing.", hint="Write it as /set temp=0.7")
        pairs.append((name, value))
    return pairs


def _overrides_told(overrides: Mapping[str, Any]) -> str:
    if not overrides:
        return "All sampling parameters are the defaults."
    told = [
        f"{name}={find_option(name).text_of(value) or 'none'}" for name, value in overrides.items()
    ]
    return visible("This chat has " + ", ".join(told))


def _system_told(text: str) -> str:
    return f"The system prompt is: {_short(text)}" if text else "There is no system prompt now."


def _short(text: str) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= SHOWN_CHARS else f"{line[: SHOWN_CHARS - 1]}…"
