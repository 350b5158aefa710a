"""Reading a JSON body: every value is checked where it is taken, and named when it is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from localpaged.server.errors import ApiError, invalid, invalid_type
from localpaged.store.text import storable

MAX_DEPTH = 64
"""Deeper than any schema people write; recursion over it must not end the thread."""


def parsed(raw: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a body. Raises ApiError."""
    try:
        body = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
        _check_depth(body)
    except (ValueError, RecursionError) as error:
        raise invalid(f"We could not parse the JSON body of your request: {error}.") from error
    if not isinstance(body, Mapping):
        raise invalid("The JSON body of your request must be an object.")
    return body


def clean(value: Any) -> Any:
    """Return JSON data with stray surrogates and NULs replaced in every text."""
    match value:
        case str():
            return storable(value)
        case list():
            return [clean(each) for each in value]
        case Mapping():
            return {storable(str(key)): clean(each) for key, each in value.items()}
    return value


class Fields:
    """One object of the body. `path` is how messages call it; `null` is as good as absent."""

    def __init__(self, body: Any, path: str = "") -> None:
        if not isinstance(body, Mapping):
            raise invalid_type(path, "an object", body)
        self._body = body
        self._path = path

    def path_of(self, name: str) -> str:
        """Return how messages call a field."""
        return f"{self._path}.{name}" if self._path else name

    def refuse_others(self, known: Collection[str]) -> None:
        """Raise ApiError for a field that nobody here knows."""
        for name in self._body:
            if name not in known:
                shown = name if len(name) <= 80 else f"{name[:80]}…"
                raise invalid(
                    f"Unrecognized request argument supplied: {shown}",
                    param=self.path_of(shown),
                    code="unknown_parameter",
                )

    def raw(self, name: str) -> Any:
        """Return what is there, None if nothing is."""
        return self._body.get(name)

    def has(self, name: str) -> bool:
        """Whether a field is there and not null."""
        return self._body.get(name) is not None

    def text(self, name: str) -> str | None:
        """Return a text, made storable; None if there is none."""
        value = self.raw(name)
        if value is not None and not isinstance(value, str):
            raise invalid_type(self.path_of(name), "a string", value)
        return None if value is None else storable(value)

    def needed_text(self, name: str) -> str:
        """Return a text that must be there and not empty."""
        value = self.text(name)
        if not value:
            raise self.missing(name)
        return value

    def missing(self, name: str) -> ApiError:
        """Return the error for a field that is not there."""
        path = self.path_of(name)
        return invalid(
            f"Missing required parameter: '{path}'.", param=path, code="missing_required_parameter"
        )

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Return true or false."""
        value = self.raw(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise invalid_type(self.path_of(name), "a boolean", value)
        return value

    def whole(self, name: str, *, low: int, high: int) -> int | None:
        """Return a whole number in a range; None if there is none."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # as JavaScript writes it
        if not isinstance(value, int) or isinstance(value, bool):
            raise invalid_type(self.path_of(name), "an integer", value)
        self._check_range(name, value, low, high, "integer")
        return value

    def number(self, name: str, *, low: float, high: float) -> float | None:
        """Return a finite number in a range; None if there is none."""
        value = self.raw(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise invalid_type(self.path_of(name), "a decimal", value)
        self._check_range(name, value, low, high, "decimal")
        return float(value)

    def choice(self, name: str, choices: Sequence[str]) -> str | None:
        """Return one of some texts; None if there is none."""
        value = self.text(name)
        if value is not None and value not in choices:
            shown = value if len(value) <= 80 else f"{value[:80]}…"
            known = ", ".join(f"'{choice}'" for choice in choices)
            raise invalid(
                f"Invalid value: '{shown}'. Supported values are: {known}.",
                param=self.path_of(name),
                code="invalid_value",
            )
        return value

    def items(self, name: str, *, most: int) -> Sequence[Any] | None:
        """Return a list; None if there is none."""
        value = self.raw(name)
        if value is None:
            return None
        path = self.path_of(name)
        if not isinstance(value, list):
            raise invalid_type(path, "an array", value)
        if len(value) > most:
            raise invalid(
                f"Invalid '{path}': array too long. Expected an array with maximum length {most}, "
                f"but got an array with length {len(value)} instead.",
                param=path,
                code="array_above_max_length",
            )
        return value

    def object(self, name: str) -> Fields | None:
        """Return an object; None if there is none."""
        value = self.raw(name)
        return None if value is None else Fields(value, self.path_of(name))

    def _check_range(self, name: str, value: float, low: float, high: float, kind: str) -> None:
        path = self.path_of(name)
        if isinstance(value, float) and not math.isfinite(value):
            raise invalid(f"Invalid '{path}': it must be finite.", param=path, code="invalid_value")
        if value < low:
            bound, limit, which = "minimum", low, "below"
        elif value > high:
            bound, limit, which = "maximum", high, "above"
        else:
            return
        comparison = ">=" if bound == "minimum" else "<="
        shown = value if abs(value) < 1e30 else f"{'-' if value < 0 else ''}a very large number"
        raise invalid(
            f"Invalid '{path}': {kind} {which} {bound} value. Expected a value {comparison} "
            f"{limit}, but got {shown} instead.",
            param=path,
            code=f"{kind}_{which}_{'min' if bound == 'minimum' else 'max'}_value",
        )


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")


def _inside(value: Any) -> Iterable[Any]:
    match value:
        case dict():
            return value.values()
        case list():
            return value
    return ()


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
