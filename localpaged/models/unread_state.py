"""A state dict that reads a tensor when it is asked for, so a model is rounded as it is read."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from localpaged.models.weights import StateReader


class UnreadState(MutableMapping[str, "torch.Tensor"]):
    """The state dict that `reader` reads, of one form each. The thread that runs torch.

    Invariant: in memory are the tensors that were asked for and not taken away.
    """

    def __init__(self, reader: StateReader) -> None:
        self._reader = reader
        self._names = dict.fromkeys(reader.names)
        self._read: dict[str, torch.Tensor] = {}

    def __getitem__(self, name: str) -> torch.Tensor:
        """Return a tensor. Raises KeyError, and BadModelFile when a file has changed."""
        if name not in self._names:
            raise KeyError(name)
        if name not in self._read:
            (self._read[name],) = self._reader.read(name).values()
        return self._read[name]

    def __setitem__(self, name: str, tensor: torch.Tensor) -> None:
        self._names[name] = None
        self._read[name] = tensor

    def __delitem__(self, name: str) -> None:
        del self._names[name]
        self._read.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
