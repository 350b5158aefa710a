"""Looks at everything, in order; changes nothing, and tells what could not be looked at."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from localpaged import paths
from localpaged.devices import choose_device
from localpaged.doctor.fact import Fact, Group, Probe, Report, Verdict, gathered, note, problem
from localpaged.doctor.nvidia import Nvidia, read_nvidia
from localpaged.doctor.settings import Choices, config_facts, variable_facts
from localpaged.doctor.terminal import Streams, read_streams, terminal_facts
from localpaged.doctor.torch_build import TorchBuild, read_torch
from localpaged.thread_waiting import wait_briefly

if TYPE_CHECKING:
    from localpaged.fitting.room import Room

# Everything else is imported by the probe that needs it: a package that is missing or broken is
# what somebody may want to find out here.


@dataclass(frozen=True, slots=True)
class Seams:
    """Where this machine is looked at; others in tests."""

    read_nvidia: Callable[[], Nvidia] = read_nvidia
    read_torch: Callable[[], TorchBuild] = read_torch
    read_streams: Callable[[], Streams] = read_streams
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


def examine(seams: Seams | None = None) -> Report:
    """Return everything there is to tell. Raises nothing for whatever is broken."""
    seams = seams or Seams()
    with _listening() as said:
        groups = [Group(name, facts) for name, facts in _Examination(seams).groups()]
    if said:
        groups.append(Group("log", tuple(note("said meanwhile", text) for text in said)))
    return Report(tuple(groups))


class _Examination:
    """One look at everything; what is found first is used by what comes after. One thread."""

    def __init__(self, seams: Seams) -> None:
        self._seams = seams
        self._nvidia = Nvidia()
        self._build: TorchBuild | None = None
        self._choices = Choices()
        self._told: dict[str, str] = {}

    def groups(self) -> Iterator[tuple[str, tuple[Fact, ...]]]:
        """Look at one group after another."""
        seams, choices = self._seams, self._choices
        # torch is imported first: whether it can be decides what else is known
        torch = gathered("torch import", self._torch)
        yield "system", self._all(("system", self._system), ("memory", self._memory))
        yield (
            "settings",
            self._all(
                ("config file", lambda: config_facts(choices)),
                ("variables", lambda: variable_facts(choices, seams.environment)),
                ("threads", self._environment),
            ),
        )
        yield "packages", self._all(("torch import", lambda: torch), ("packages", self._packages))
        yield "processor", self._all(("processor", self._processor))
        yield (
            "GPU and kernels",
            self._all(("GPU", self._gpu), ("computes on", self._kernels), ("step", self._step)),
        )
        yield (
            "models",
            self._all(("models", self._models), ("model", self._model), ("fits", self._fits)),
        )
        yield (
            "files",
            self._all(
                ("folders", self._folders),
                ("disk", self._disk),
                ("KV files", self._kv_files),
                ("kept weights", self._kept_weights),
                ("programs", self._sockets),
            ),
        )
        yield (
            "history",
            self._all(
                ("history", self._history),
                ("copies", self._copies),
                ("history open in", self._users),
            ),
        )
        yield (
            "terminal",
            self._all(
                ("terminal", lambda: terminal_facts(seams.read_streams(), seams.environment))
            ),
        )

    def _all(self, *probes: tuple[str, Probe]) -> tuple[Fact, ...]:
        facts = []
        for name, probe in probes:
            facts += [self._once(fact) for fact in gathered(name, probe)]
        return tuple(facts)

    def _once(self, fact: Fact) -> Fact:
        """What keeps several things from being looked at is one problem."""
        if fact.verdict is not Verdict.PROBLEM:
            return fact
        first = self._told.setdefault(fact.value, fact.name)
        return fact if first == fact.name else note(fact.name, f"not known: see {first}")

    def _torch(self) -> Iterator[Fact]:
        wait_briefly()
        try:
            self._build = self._seams.read_torch()
        except (ImportError, OSError) as error:
            advice = "Install torch again: pip install --force-reinstall torch"
            yield problem("torch import", f"it fails: {error}", advice)

    def _system(self) -> Iterable[Fact]:
        from localpaged.doctor.machine import system_facts

        return system_facts()

    def _memory(self) -> Iterable[Fact]:
        from localpaged.doctor.machine import memory_facts

        return memory_facts()

    def _environment(self) -> Iterable[Fact]:
        from localpaged.doctor.machine import environment_facts

        return environment_facts(self._seams.environment)

    def _packages(self) -> Iterable[Fact]:
        from localpaged.doctor.packages import package_facts

        return package_facts()

    def _processor(self) -> Iterable[Fact]:
        if self._build is None:
            return [_unknown("processor")]
        from localpaged.doctor.machine import processor_facts

        return processor_facts(self._build)

    def _gpu(self) -> Iterable[Fact]:
        from localpaged.doctor.gpu import gpu_facts

        self._nvidia = self._seams.read_nvidia()
        settings = self._choices.settings()
        return gpu_facts(self._nvidia, self._build or TorchBuild(), settings)

    def _kernels(self) -> Iterable[Fact]:
        from localpaged.doctor.gpu import kernel_facts

        settings = self._choices.settings()
        return kernel_facts(self._nvidia, self._build or TorchBuild(), settings)

    def _step(self) -> Iterable[Fact]:
        if self._build is None:
            return [_unknown("step")]
        from localpaged.doctor.processor_step import step_facts

        return step_facts(self._choices.settings(), self._build)

    def _room(self) -> Room:
        """Return the memory where models are computed. Raises ConfigError where they cannot be."""
        from localpaged.fitting.room import room_on

        build = self._build or TorchBuild()
        return room_on(choose_device(self._choices.settings(), build.cards))

    def _models(self) -> Iterable[Fact]:
        from localpaged.doctor.models import list_facts

        return list_facts()

    def _model(self) -> Iterable[Fact]:
        if self._build is None:
            return [_unknown("model")]
        from localpaged.doctor.models import usual_facts

        return usual_facts(self._choices.settings(), self._build, self._room)

    def _fits(self) -> Iterable[Fact]:
        if self._build is None:
            return []
        from localpaged.doctor.fits import fit_facts

        return fit_facts(self._choices.settings(), self._room())

    def _folders(self) -> Iterable[Fact]:
        from localpaged.doctor.places import folder_facts

        return folder_facts()

    def _disk(self) -> Iterable[Fact]:
        from localpaged.doctor.places import room_facts

        return room_facts()

    def _kv_files(self) -> Iterable[Fact]:
        from localpaged.doctor.places import kv_facts

        return kv_facts(self._choices.settings())

    def _kept_weights(self) -> Iterable[Fact]:
        from localpaged.doctor.places import weights_facts

        return weights_facts(self._choices.settings())

    def _sockets(self) -> Iterable[Fact]:
        from localpaged.doctor.places import socket_facts

        return socket_facts()

    def _history(self) -> Iterable[Fact]:
        from localpaged.doctor.history import history_facts

        return history_facts(paths.database_file())

    def _copies(self) -> Iterable[Fact]:
        from localpaged.doctor.history import copies_facts

        return copies_facts(paths.database_file())

    def _users(self) -> Iterable[Fact]:
        from localpaged.doctor.history import users_facts

        return users_facts(paths.database_file())


def _unknown(name: str) -> Fact:
    return note(name, "not looked at: it takes torch, which cannot be imported")


class _Listener(logging.Handler):
    """Collects what libraries and we would write into the log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Keep warnings out of the log, which would be made for them, and tell them instead."""
    root, listener = logging.getLogger(), _Listener()
    others = root.handlers[:]
    root.handlers[:] = [listener]
    logging.captureWarnings(True)
    try:
        yield listener.said
    finally:
        logging.captureWarnings(False)
        root.handlers[:] = others
