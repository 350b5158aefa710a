"""Reads the metadata keys that describe a GGUF file's model."""

from __future__ import annotations

from localpaged.errors import BadModelFile, UnsupportedModel
from localpaged.models.families import OTHER_MODEL_HINT
from localpaged.models.gguf_file import GgufHeader
from localpaged.plain_text import visible


class GgufFields:
    """The metadata keys of one architecture, checked as they are read. Immutable."""

    def __init__(self, header: GgufHeader) -> None:
        self._metadata = header.metadata
        self.shown = visible(str(header.path))
        self.architecture = str(header.metadata["general.architecture"])

    def get(self, key: str) -> object:
        """Return the value of `<architecture>.<key>`, None when it is absent."""
        return self._metadata.get(f"{self.architecture}.{key}")

    def whole(self, key: str, *, default: int | None = None, high: int = 2**31 - 1) -> int:
        """Return a whole number from 1 to `high`."""
        value = self.get(key)
        if value is None and default is not None:
            value = default
        if not isinstance(value, int):
            if value is not None and not isinstance(value, (str, float)):
                raise UnsupportedModel(
                    f"{self.shown}: {self.architecture}.{key} differs from layer to layer.",
                    hint=OTHER_MODEL_HINT,
                )
            raise self.bad(key, value)
        if isinstance(value, bool) or not 1 <= value <= high:
            raise self.bad(key, value)
        return value

    def real(self, key: str, *, default: float | None = None) -> float:
        """Return a positive finite number."""
        value = self.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise self.bad(key, value)
        return float(value)

    def bad(self, key: str, value: object) -> BadModelFile:
        """Return the error for a value that cannot be right."""
        what = "is missing" if value is None else f"is {short(repr(value))}"
        return BadModelFile(
            f"{self.shown}: {self.architecture}.{key} {what}.",
            hint="The file is damaged or was converted wrongly: fetch it again.",
        )


def short(value: object) -> str:
    """Return an untrusted value for the middle of a sentence."""
    return visible(str(value)[:40])
