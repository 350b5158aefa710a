"""Frozen dataclasses as JSON and back. What comes back is checked; what it has more is ignored."""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from localpaged.errors import StatsError

T = TypeVar("T")
MAX_NUMBER = 1 << 63
"""What is larger is no count of anything, and would end arithmetic with an error."""


def encode(value: Any) -> Any:
    """Return a dataclass as nested dicts and lists, by the names of its fields and properties."""
    if is_dataclass(value):
        return _encode_fields(value)
    if isinstance(value, tuple):
        # all of one kind, and the thousands of points are looked at by nobody
        return [encode(item) for item in value] if value and is_dataclass(value[0]) else list(value)
    return value


def _encode_fields(value: Any) -> dict[str, Any]:
    return {name: encode(getattr(value, name)) for name in _told(type(value))}


def decode_fields(kind: type[T], data: object, path: str = "") -> T:
    """Return a dataclass made of a dict's known fields. Raises StatsError for what does not fit."""
    if not isinstance(data, dict):
        raise _misfit(path)
    known: dict[str, Any] = {}
    hints = _hints(kind)
    for each in fields(kind):  # type: ignore[arg-type]
        where = f"{path}.{each.name}" if path else each.name
        if each.name in data:
            known[each.name] = _decode(hints[each.name], data[each.name], where)
        elif each.default is MISSING and each.default_factory is MISSING:
            raise _misfit(where)
    return kind(**known)


def _decode(hint: Any, value: object, path: str) -> Any:
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        (inner,) = (arg for arg in get_args(hint) if arg is not type(None))
        return None if value is None else _decode(inner, value, path)
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise _misfit(path)
        (inner, _) = get_args(hint)
        return tuple(_decode(inner, item, path) for item in value)
    if is_dataclass(hint):
        return decode_fields(hint, value, path)  # type: ignore[arg-type]
    return _scalar(hint, value, path)


def _scalar(hint: type, value: object, path: str) -> Any:
    # bool is an int to Python; to a reader of numbers it is a mistake
    is_bool = isinstance(value, bool)
    if hint is float and isinstance(value, (int, float)) and not is_bool:
        # an infinite number, or none at all, is no measurement
        if not -MAX_NUMBER < value < MAX_NUMBER:
            raise _misfit(path)
        return float(value)
    if hint is int and isinstance(value, int) and not -MAX_NUMBER < value < MAX_NUMBER:
        raise _misfit(path)
    if isinstance(value, hint) and (is_bool == (hint is bool)):
        return value
    raise _misfit(path)


def _names_told(kind: Any) -> tuple[str, ...]:
    derived = (name for name, value in vars(kind).items() if isinstance(value, property))
    return (*(each.name for each in fields(kind)), *derived)


_told: Callable[[Any], tuple[str, ...]] = cache(_names_told)
_hints: Callable[[Any], dict[str, Any]] = cache(get_type_hints)


def _misfit(path: str) -> StatsError:
    return StatsError(f"What was read is not stats of localpaged: {path or 'it'} does not fit.")
