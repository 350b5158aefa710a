"""KV files for tests: a keeper whose jobs run when a test says so, blocks of the fake runner."""

from __future__ import annotations

import sys
import threading
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from localpaged.engine.answer import Vocabulary
from localpaged.engine.departures import MIN_BLOCKS
from localpaged.engine.keeping_core import KeepingCore
from localpaged.engine.params import EngineConfig
from localpaged.kv_files.folder import KVFolder
from localpaged.kv_files.identity import KVIdentity, Part
from localpaged.kv_files.keeper import KVKeeper
from testkit.fake_runner import VOCAB_SIZE, FakeRunner

PLENTY_BYTES = 1 << 30


def fake_identity(*, block_size: int = 16, segment_blocks: int = 16, **facts: str) -> KVIdentity:
    """Return the identity of the fake runner's KV."""
    part = Part("numbers", "I32", 4, 1, (block_size,))
    return KVIdentity(tuple(facts.items()), block_size, (part,), segment_blocks)


class ManualKeeper(KVKeeper):
    """A keeper without a thread: `work` does its jobs."""

    def __init__(self, folder: KVFolder, **options: Any) -> None:
        self.todo: deque[Callable[[], None]] = deque()
        self.alarms: list[float | None] = []
        super().__init__(folder, **{"budget_bytes": PLENTY_BYTES, **options})

    def start(self) -> None:
        pass

    def work(self, count: int = sys.maxsize) -> None:
        """Do up to `count` jobs, those that come up meanwhile included."""
        while self.todo and count > 0:
            self.todo.popleft()()
            count -= 1

    def ring(self) -> None:
        """Let the alarm ring."""
        self._refresh()
        self._has_rung = True

    def set_alarm(self, delay_s: float | None) -> None:
        self.alarms.append(delay_s)
        super().set_alarm(delay_s)

    def wait_for_room(self, timeout_s: float) -> bool:
        self.work()
        return super().wait_for_room(timeout_s)

    def close(self, *, wait_s: float) -> None:
        self.work()

    def _enqueue(self, job: Callable[[], None]) -> None:
        self.todo.append(job)


class FakeBlocks:
    """A BlockStore over the slots of a fake runner."""

    def __init__(self, runner: FakeRunner, *, block_size: int) -> None:
        self._runner = runner
        self._size = block_size

    def read_blocks(self, blocks: Sequence[int]) -> tuple[memoryview, ...]:
        slots, size = self._runner._slots, self._size
        tokens = [slots[block * size + i] for block in blocks for i in range(size)]
        return (memoryview(array("i", tokens)).cast("B"),)

    def write_blocks(
        self, blocks: Sequence[int], parts: Sequence[memoryview], *, first: int, pool_blocks: int
    ) -> None:
        tokens = parts[0].cast("i")
        for place, block in enumerate(blocks, start=first):
            for i in range(self._size):
                self._runner._slots[block * self._size + i] = tokens[place * self._size + i]


class NeverTimer(threading.Timer):
    """A timer that does not ring."""

    def start(self) -> None:
        pass


def make_keeping_core(
    root: Path,
    *,
    num_blocks: int = 64,
    runner: FakeRunner | None = None,
    keeper: KVKeeper | None = None,
    context_length: int | None = None,
    segment_blocks: int = 16,
    min_blocks: int = MIN_BLOCKS,
    keeper_options: dict[str, Any] | None = None,
    clock: Callable[[], float] | None = None,
    **config: Any,
) -> tuple[KeepingCore, ManualKeeper]:
    """Return a core over a fake runner whose files lie below `root`, and its keeper."""
    block_size = config.get("block_size", 16)
    runner = runner or FakeRunner(num_blocks, block_size=block_size)
    identity = fake_identity(block_size=block_size, segment_blocks=segment_blocks)
    folder = KVFolder(identity, root)
    keeper = keeper or ManualKeeper(folder, **keeper_options or {})
    core = KeepingCore(
        EngineConfig(
            num_blocks=num_blocks,
            context_length=context_length or num_blocks * block_size,
            **config,
        ),
        runner,
        Vocabulary([bytes([i]) for i in range(VOCAB_SIZE)], frozenset()),
        store=FakeBlocks(runner, block_size=block_size),
        keeper=keeper,
        make_timer=NeverTimer,
        **({} if clock is None else {"clock": clock}),
    )
    core._departures.min_blocks = min_blocks
    return core, keeper  # type: ignore[return-value]
