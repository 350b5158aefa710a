"""The models of this machine for one run: each is opened once, on a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from localpaged.chat.models import ListedModel
from localpaged.errors import ModelError
from localpaged.models.open_model import open_model
from localpaged.models.opened_model import OpenedModel
from localpaged.models.registry import ModelEntry, find_model, list_entries
from localpaged.plain_text import visible
from localpaged.prompt import ChatModel


@dataclass(slots=True, eq=False)
class _Opening:
    source: Path
    opened: Future[OpenedModel] = field(default_factory=Future)
    chat: Future[ChatModel] = field(default_factory=Future)


class Shelf:
    """A ModelShelf. Any thread.

    Invariant: a name stands for one file. What could not be opened is opened again when it is
    asked for the next time; the default model alone is not, as without it there is no run.
    """

    def __init__(self, default: str) -> None:
        self.default = _Opening(Path())
        self._default_name = default
        self._openings: dict[str, _Opening] = {}
        self._lock = threading.Lock()

    def open_default(self) -> None:
        """Begin to open the model that chats without a choice are answered by; once."""
        self._start(self.default, self._default_name)

    def open(self, choice: str) -> Future[ChatModel]:
        """See ModelShelf."""
        entry = find_model(choice)
        return (self.default if self._is_default(entry.path) else self._open(entry, choice)).chat

    def opened(self, name: str) -> OpenedModel:
        """Return a model that was opened, by its own name; raises what kept it from that."""
        with self._lock:
            opening = self._openings[name]
        return opening.opened.result()

    def listed(self) -> Sequence[ListedModel]:
        """See ModelShelf."""
        return [ListedModel(entry.name, _num_bytes(entry.path)) for entry in list_entries()]

    def _open(self, entry: ModelEntry, choice: str) -> _Opening:
        default = self.default.opened
        if default.done() and not _has_failed(default) and default.result().name == entry.name:
            raise _same_name(entry.name, default.result().source, entry.path)
        with self._lock:
            known = self._openings.get(entry.name)
            if known is not None and not _has_failed(known.opened):
                if known.source != entry.path:
                    raise _same_name(entry.name, known.source, entry.path)
                return known
            opening = self._openings[entry.name] = _Opening(entry.path)
        self._start(opening, choice)
        return opening

    def _is_default(self, source: Path) -> bool:
        opened = self.default.opened
        is_open = opened.done() and not _has_failed(opened)
        return is_open and opened.result().source == source

    def _start(self, opening: _Opening, name: str) -> None:
        threading.Thread(target=_fill, args=(opening, name), name="open-model", daemon=True).start()


def _fill(opening: _Opening, name: str) -> None:
    try:
        model = open_model(name)
    except BaseException as error:  # a panic in the tokenizer is no Exception
        opening.opened.set_exception(error)
        opening.chat.set_exception(error)
    else:
        opening.opened.set_result(model)
        opening.chat.set_result(model.chat)


def _has_failed(opened: Future[OpenedModel]) -> bool:
    return opened.done() and opened.exception() is not None


def _num_bytes(source: Path) -> int:
    try:
        files = source.glob("*.safetensors") if source.is_dir() else [source]
        return sum(file.stat().st_size for file in files)
    except OSError:
        return 0  # the list has it all the same; opening it tells what is wrong


def _same_name(name: str, here: Path, other: Path) -> ModelError:
    return ModelError(
        f"{visible(name)} is {visible(str(here))} in this run, not {visible(str(other))}.",
        hint="Give one of the two another name: `localpaged models pull PATH --name NAME`.",
    )
