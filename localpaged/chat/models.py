"""Models: which can answer, which of them are loaded, and how a chat's choice becomes one."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from localpaged import paths
from localpaged.abilities import EMBEDDED, Abilities, abilities_of
from localpaged.errors import ChatError, LocalPagedError, ModelError, ModelNotFound

if TYPE_CHECKING:
    from localpaged.engine.port import EnginePort
    from localpaged.prompt import ChatModel


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model that is on this machine, and how long its weights are on the disk.

    `endpoint` is the host of one that is somewhere else, asked over HTTP.
    """

    name: str
    file_bytes: int
    endpoint: str = ""


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model that may answer. The default one answers chats that chose none.

    `file_bytes` is 0 when the model is not listed: it was named by its path.
    """

    name: str
    file_bytes: int
    is_loaded: bool = False
    is_loading: bool = False
    is_default: bool = False
    endpoint: str = ""


def is_address(choice: str) -> bool:
    """Whether a model was chosen by where its endpoint is."""
    return choice.lower().startswith(("http://", "https://"))


def name_of(choice: str) -> str:
    """Return what the model is called that a chat chose by its name or path; "" stays ""."""
    if is_address(choice):
        url, _, model = choice.partition("#")
        host = url.partition("//")[2].partition("/")[0]
        return f"{model}@{host}" if model else host
    is_path = choice.startswith("/")
    return choice.rpartition("/")[2].removesuffix(".gguf") if is_path else choice


class ModelShelf(Protocol):
    """The models of this machine. Any thread; nothing waits for more than a look into a folder."""

    def open(self, choice: str) -> Future[ChatModel]:
        """Open the model of that name or path beside everything else, each once.

        Raises ModelNotFound when there is none.
        """

    def listed(self) -> Sequence[ListedModel]:
        """Return what is here, by name. Raises ModelError when the folder cannot be read."""


@runtime_checkable
class WithEndpoints(ModelShelf, Protocol):
    """A shelf that has models behind endpoints as well."""

    def is_endpoint(self, choice: str) -> bool:
        """Whether a choice means one of them; opens nothing and reads no disk."""


class EmptyShelf:
    """A ModelShelf for where the default model is all there is."""

    def open(self, choice: str) -> Future[ChatModel]:
        """See ModelShelf."""
        raise ModelNotFound(f"There is no model {choice!r} here.")

    def listed(self) -> Sequence[ListedModel]:
        """See ModelShelf."""
        return ()


class Models:
    """What answers, by a chat's choice. Any thread: every change is one atomic step in a dict.

    Invariant: a model has one name, which the engine, the turns and the events call it by; the
    engine knows the default one as "" as well.
    """

    def __init__(
        self, *, engine: EnginePort, default: Future[ChatModel], shelf: ModelShelf | None = None
    ) -> None:
        self.default = default
        self._engine = engine
        self._shelf = shelf or EmptyShelf()
        self._is_ready: dict[str, bool] = {}  # False while it loads

    def choices(self) -> Sequence[ModelChoice]:
        """Return what can answer: the default first, then what is listed, by name."""
        listed = self._shelf.listed()
        sizes = {model.name: model.file_bytes for model in listed}
        hosts = {model.name: model.endpoint for model in listed}
        default = self.default_name
        states = dict(self._is_ready)
        is_default_ready = states.pop("", None)
        names = dict.fromkeys([*([default] if default else []), *sizes, *states])
        if default:
            states[default] = bool(is_default_ready)
        return [
            ModelChoice(
                name,
                sizes.get(name, 0),
                is_loaded=states.get(name) is True,
                is_loading=states.get(name) is False,
                is_default=name == default,
                # one that was chosen by its address is in no list
                endpoint=hosts.get(name, "") or self.abilities(name).endpoint,
            )
            for name in names
        ]

    @property
    def default_name(self) -> str:
        """The name of the default model; "" while it is not known or when it cannot be opened."""
        is_open = self.default.done() and not self.default.cancelled()
        return self.default.result().name if is_open and self.default.exception() is None else ""

    def find(self, choice: str) -> Future[ChatModel]:
        """Return the model that a chat chose, opened or being opened. Raises ModelNotFound."""
        if not choice:
            return self.default
        try:
            return self._shelf.open(choice)
        except ModelNotFound:
            # One that was given by its path is called by a name that no list has.
            if choice == self.default_name:
                return self.default
            raise

    def abilities(self, choice: str) -> Abilities:
        """Return what the model that a chat chose lets be done; all, where it is not known yet."""
        if choice in ("", self.default_name):
            opened = self.default
        elif isinstance(self._shelf, WithEndpoints) and self._shelf.is_endpoint(choice):
            try:
                opened = self.find(choice)
            except LocalPagedError:
                return EMBEDDED  # why it cannot be asked is told when it is
        else:
            return EMBEDDED
        is_open = opened.done() and not opened.cancelled() and opened.exception() is None
        return abilities_of(opened.result()) if is_open else EMBEDDED

    def engine_name(self, model: ChatModel) -> str:
        """Return what the engine calls a model, which is loaded if it is not."""
        if model.name == self.default_name:
            return ""
        self._engine.load(model.name)
        return model.name

    def is_ready(self, model: ChatModel) -> bool:
        """Whether a model is loaded."""
        name = "" if model.name == self.default_name else model.name
        return self._is_ready.get(name, False)

    def load(self, choice: str) -> Future[ChatModel]:
        """Load a model; how it goes is told by events. Raises ModelNotFound."""
        opened = self.find(choice)
        opened.add_done_callback(partial(_load_opened, self))
        return opened

    def unload(self, name: str) -> None:
        """Let a further model and its memory go; its answers fail. Raises ChatError."""
        if name in ("", self.default_name):
            raise ChatError(
                "The model that chats begin with stays loaded.",
                hint="Start localpaged with another --model.",
            )
        self._engine.unload(name)

    # told by the engine's listener; "" is the default model

    def note_loading(self, name: str) -> None:
        """A model begins to load, or goes on."""
        self._is_ready[name] = False

    def note_ready(self, name: str) -> None:
        """A model is loaded."""
        self._is_ready[name] = True

    def note_gone(self, name: str) -> None:
        """A model could not be loaded, or was unloaded."""
        self._is_ready.pop(name, None)


def _load_opened(models: Models, opened: Future[ChatModel]) -> None:
    if not opened.cancelled() and opened.exception() is None:
        models.engine_name(opened.result())


def opening_error(opened: Future[ChatModel]) -> LocalPagedError | None:
    """Return why a model could not be opened; None when it is open."""
    if opened.cancelled():
        return ModelError("The model was not loaded.")
    error = opened.exception()
    if error is None or isinstance(error, LocalPagedError):
        return error
    return ModelError(f"The model could not be loaded: {error}.", hint=paths.log_hint())


def opened_model(opened: Future[ChatModel]) -> ChatModel:
    """Return a model that is open.

    Raises ChatError while it is being opened, then what kept it from being opened.
    """
    if not opened.done():
        raise ChatError("The model is still loading.", hint="Wait until it is there.")
    error = opening_error(opened)
    if error is not None:
        raise error
    return opened.result()
