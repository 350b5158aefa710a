"""KeepingCore: an EngineCore whose cached KV outlives it, in files."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from localpaged.engine.answer import Vocabulary
from localpaged.engine.containment import Runner
from localpaged.engine.core import EngineCore
from localpaged.engine.departures import Departures
from localpaged.engine.events import Event, FailEvent, PrefillEvent
from localpaged.engine.params import EngineConfig, Request, RequestId
from localpaged.engine.restores import TOO_SLOW, BlockStore, Restore, Restores
from localpaged.errors import LocalPagedError
from localpaged.kv_files.keeper import KVKeeper

log = logging.getLogger(__name__)

IDLE_S = 3.0
"""So long nobody asks anything before KV is written to files."""
LEAST_WAIT_S = 1.0
"""A request waits so long for the next file at least: what computing costs may not be known yet."""
MAX_COPY_S = 0.4
"""The engine's thread takes no longer for the last copies; the newest come first."""


@dataclass(slots=True, eq=False)
class _Held:
    """A request that waits for KV on its way, as long as some of it comes.

    `num_seen` tokens had come when it began to wait for the next ones. `is_overdue`: it waited
    longer for them than computing them would take.
    """

    request: Request
    submitted_s: float
    restore: Restore
    num_seen: int = 0
    is_overdue: bool = False
    timer: threading.Timer | None = None

    def wait(self, timer: threading.Timer) -> None:
        """Wait until the timer rings, on a thread of its own."""
        self.num_seen, self.is_overdue = self.restore.num_tokens, False
        self.timer = timer
        timer.daemon = True
        timer.start()

    def end(self) -> None:
        """Wait no longer."""
        if self.timer is not None:
            self.timer.cancel()


class KeepingCore(EngineCore):
    """Restores what files have of a prompt before it runs; writes files when idle and at the end.

    Engine thread only. Invariant: a request waits for a restore or is the EngineCore's. A step
    takes at most one segment in, and copies one out only where nothing else is to be done.
    """

    def __init__(
        self,
        config: EngineConfig,
        runner: Runner,
        vocabulary: Vocabulary,
        *,
        store: BlockStore,
        keeper: KVKeeper,
        clock: Callable[[], float] = time.perf_counter,
        make_timer: Callable[[float, Callable[[], None]], threading.Timer] = threading.Timer,
        **options: Any,
    ) -> None:
        """`options` are the EngineCore's. The keeper's thread starts here, and ends with `park`."""
        super().__init__(config, runner, vocabulary, clock=clock, **options)
        kv = self.scheduler.kv
        self._now_s = clock
        self._make_timer = make_timer
        self._keeper = keeper
        self._restores = Restores(kv, store, keeper)
        self._departures = Departures(kv, store, keeper)
        self._held: dict[RequestId, _Held] = {}
        self._told: dict[RequestId, tuple[int, str]] = {}
        self._is_dirty = False
        keeper.start()

    @property
    def is_idle(self) -> bool:
        """See EngineCore."""
        is_waiting = bool(self._held) or self._restores.is_open
        return super().is_idle and not is_waiting and not self._is_writing_due

    @property
    def is_blocked(self) -> bool:
        """See EngineCore."""
        can_step = not (super().is_idle or super().is_blocked)
        can_write = self._is_writing_due and self._keeper.has_room
        is_overdue = any(held.is_overdue for held in self._held.values())
        return not (can_step or can_write or is_overdue or self._keeper.has_arrived)

    @property
    def _is_writing_due(self) -> bool:
        """Whether nobody has asked anything for a while, and there is something new."""
        is_quiet = super().is_idle and not self._held
        return is_quiet and self._is_dirty and self._keeper.has_rung

    def call_when_unblocked(self, wake: Callable[[], None]) -> None:
        """See EngineCore."""
        super().call_when_unblocked(wake)
        self._keeper.wake = wake

    def submit(self, request: Request, *, submitted_s: float | None = None) -> list[Event]:
        """See EngineCore; a request of which files have more than memory has waits for them."""
        submitted_s = self._now_s() if submitted_s is None else submitted_s
        if not self._is_worth_waiting(request):
            return self._let_go(request, submitted_s)
        restore = self._restores.begin(request.prompt_ids, user=request.chat_id, may_evict=True)
        held = self._held[request.id] = _Held(request, submitted_s, restore)
        self._wait(held)
        return []

    def bring_back(self, token_ids: tuple[int, ...], chat_id: str) -> None:
        """Restore what files have of a prefix that is likely to be asked for, where there is room.

        Nothing that is cached is evicted for it.
        """
        ids = (*token_ids, 0)  # one token of a prompt is always left to compute
        if self._restores.is_worth(ids, token_s=self.scheduler.pace.token_s):
            self._restores.begin(ids, user=chat_id, may_evict=False)

    def cancel(self, request_id: RequestId, *, branch: int | None = None) -> list[Event]:
        """See EngineCore."""
        held = self._held.get(request_id)
        events = [] if held is None else self._release(held)
        events += super().cancel(request_id, branch=branch)
        self._note_idle()
        return events

    def fail_all(self, error: LocalPagedError) -> list[Event]:
        """See EngineCore."""
        events: list[Event] = [FailEvent(request_id, error) for request_id in self._held]
        for held in self._held.values():
            held.end()
        self._held.clear()
        self._restores.end_all()
        return [*events, *super().fail_all(error)]

    def step(self) -> list[Event]:
        """See EngineCore."""
        if self._keeper.has_arrived:
            self._restores.take(reserved_blocks=self.scheduler.blocks_still_needed())
        events: list[Event] = []
        for held in list(self._held.values()):
            if held.is_overdue and held.restore.num_tokens > held.num_seen:
                self._wait(held)
            if held.restore.is_over or held.is_overdue:
                events += self._release(held)
        if not (super().is_idle or super().is_blocked):
            self._departures.break_off()
            self._is_dirty = True
            events += super().step()
            self._note_idle()
        elif self._is_writing_due and self._keeper.has_room:
            self._put_away()
        return self._with_restored(events) if self._told else events

    def park(self, *, wait_s: float) -> None:
        """Put what shall outlive the engine into files; nothing is asked of this core after it.

        What is not copied after `MAX_COPY_S`, and not written `wait_s` later, is dropped. With 0
        the keeper's thread goes on writing by itself.
        """
        ends_s = time.perf_counter() + MAX_COPY_S
        self._restores.end_all()
        self._keeper.hurry(is_last=wait_s > 0)
        while self._is_dirty and (left_s := ends_s - time.perf_counter()) > 0:
            if self._keeper.wait_for_room(left_s):
                self._put_away()
        self._keeper.close(wait_s=wait_s)

    def check(self) -> None:
        """See EngineCore."""
        super().check()
        self._restores.check()
        assert not self._held.keys() & self._requests.keys()

    def _is_worth_waiting(self, request: Request) -> bool:
        if request.prompt_logprobs is not None or request.id in self._held:
            return False
        token_s = self.scheduler.pace.token_s
        try:
            return self._restores.is_worth(request.prompt_ids, token_s=token_s)
        except (TypeError, ValueError, OverflowError):
            return False  # no token ids at all: the EngineCore refuses them with a sentence

    def _wait(self, held: _Held) -> None:
        """Give the next file so long as computing what is in it would take, or a moment."""
        token_s = self.scheduler.pace.token_s or 0.0
        wait_s = max(LEAST_WAIT_S, token_s * self._keeper.identity.segment_tokens)
        held.wait(self._make_timer(wait_s, lambda: self._overdue(held)))

    def _overdue(self, held: _Held) -> None:
        """Its time is over; on the timer's thread."""
        held.is_overdue = True
        self._keeper.wake()

    def _release(self, held: _Held) -> list[Event]:
        held.end()
        del self._held[held.request.id]
        if not any(other.restore is held.restore for other in self._held.values()):
            self._restores.give_up(held.restore, TOO_SLOW)
        return self._let_go(held.request, held.submitted_s)

    def _let_go(self, request: Request, submitted_s: float) -> list[Event]:
        told = self._restores.told_of(request.prompt_ids, request.chat_id)
        events = super().submit(request, submitted_s=submitted_s)
        if any(told) and not events:
            self._told[request.id] = told
        return events

    def _note_idle(self) -> None:
        """Have the alarm ring when nobody has asked anything for a while."""
        if self._is_dirty and super().is_idle:
            self._keeper.set_alarm(IDLE_S)

    def _put_away(self) -> None:
        """Copy one piece into a file, or end the round."""
        try:
            self._is_dirty = not self._departures.go_on()
        except Exception:  # chats go on without; what is new later is tried again
            log.exception("KV could not be copied into a file")
            self._departures.break_off()
            self._is_dirty = False

    def _with_restored(self, events: list[Event]) -> list[Event]:
        """Add to what is told of a prompt, each time, what of it came from files."""
        told = [
            replace(
                event,
                restored_tokens=min(self._told[event.request_id][0], event.cached_tokens),
                restore_note=self._told[event.request_id][1],
            )
            if isinstance(event, PrefillEvent) and event.request_id in self._told
            else event
            for event in events
        ]
        for request_id in self._told.keys() - self._requests.keys():
            del self._told[request_id]
        return told
