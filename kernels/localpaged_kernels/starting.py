"""Starts a kernel that was compiled before without Triton's own look at every argument.

That look, the lookup behind it and the binding of some fifty arguments by name cost a start more
than the kernel takes on a fast card, and a step that is not recorded starts hundreds. What Triton
compiles for is told by few things (types, what is None or 1, what 16 divides): they are the key
under which what it compiled is kept here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localpaged_kernels.launch import Launch

_LEAST, _MOST = -(2**31), 2**31

Look = Callable[[Any], Hashable]


class Starter:
    """Starts launches of one kernel. The engine's thread only.

    Invariant: launches of one key are compiled to the same code by Triton, whatever their numbers.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel
        self._names = tuple(kernel.arg_names)
        self._looks = tuple(_look_at(parameter) for parameter in kernel.params)
        self._compiled: dict[Hashable, Any] = {}

    def start(self, launch: Launch) -> None:
        """Start a launch on the current stream; compile it if none like it was started before."""
        values = self._values(launch)
        key = self._key(launch, values)
        compiled = self._compiled.get(key)
        if compiled is None:
            self._compiled[key] = self._kernel[launch.grid](
                **launch.args, **launch.constants, **launch.options
            )
        else:
            compiled[launch.grid + (1, 1, 1)[len(launch.grid) :]](*values)

    def key(self, launch: Launch) -> Hashable:
        """Return what a launch is compiled for."""
        return self._key(launch, self._values(launch))

    def _values(self, launch: Launch) -> list[Any]:
        args, constants = launch.args, launch.constants
        return [args[name] if name in args else constants[name] for name in self._names]

    def _key(self, launch: Launch, values: Sequence[Any]) -> Hashable:
        device = getattr(values[0], "device", None)
        layout = launch.num_warps, launch.num_stages, launch.is_unspilled, launch.is_chained
        looks = [look(value) for look, value in zip(self._looks, values, strict=True)]
        return device, layout, tuple(looks)


def _look_at(parameter: Any) -> Look:
    if parameter.is_constexpr:
        return _itself
    return _by_type if parameter.do_not_specialize else _closely


def _itself(value: Any) -> Hashable:
    return type(value), value  # 1 and True are equal, and two constants


def _by_type(value: Any) -> Hashable:
    if value is None or type(value) is float:
        return type(value).__name__
    return _LEAST <= value < _MOST if type(value) is int else value.dtype


def _closely(value: Any) -> Hashable:
    if value is None or type(value) is float:
        return type(value).__name__
    if type(value) is int:
        return value if value == 1 else (_LEAST <= value < _MOST, value % 16 == 0)
    return value.dtype, value.data_ptr() % 16 == 0
