"""Which engine is looked at, what was last seen of it, and what it did before. No widgets."""

from __future__ import annotations

from collections.abc import Callable

from localpaged.errors import StatsError
from localpaged.stats.schema import ModelStats, Snapshot
from localpaged.tui.stats.measures import ModelTracks
from localpaged.tui.stats.source import Sighting, Wish

INTERVALS_S = (0.5, 1.0, 2.0, 5.0, 10.0)
USUAL_INTERVAL_S = 1.0
ZOOMS = (1, 2, 5, 15, 30)
"""Seconds that one column of a curve stands for."""
MAX_KEPT_TRACKS = 16

Key = tuple[int, float, str]


class Watch:
    """What the dashboard knows. UI thread only.

    Invariant: `snapshot` is the last picture of the program `engine`, which stays when it ends;
    `ended_at` is when that was noticed, None while it runs.
    """

    def __init__(self, *, clock_s: Callable[[], float], engine: str | None = None) -> None:
        """`engine` is the program to begin with; without one it is the newest."""
        self._clock_s = clock_s
        self.engine = engine
        self.engines: tuple[str, ...] = ()
        self.snapshot: Snapshot | None = None
        self.failure: StatsError | None = None
        self.ended_at: float | None = None
        self.is_paused = False
        self.interval_s = USUAL_INTERVAL_S
        self._zoom = 1
        self._place: int | None = 0
        self._others: frozenset[str] = frozenset()
        self._tracks: dict[Key, ModelTracks] = {}

    # what there is

    @property
    def model(self) -> ModelStats | None:
        """The model that is looked at; None while the program has none."""
        models = self._models
        return models[self._at] if models else None

    @property
    def _models(self) -> tuple[ModelStats, ...]:
        return self.snapshot.models if self.snapshot is not None else ()

    @property
    def _at(self) -> int:
        """The place of the model, from 0; the last one where None says so."""
        last = len(self._models) - 1
        return last if self._place is None else max(0, min(self._place, last))

    @property
    def tracks(self) -> ModelTracks:
        """What the model that is looked at did before."""
        assert self.snapshot is not None and self.model is not None, "nothing was seen yet"
        return self._tracks_of(self.snapshot, self.model)

    @property
    def is_stale(self) -> bool:
        """Whether the picture is one of earlier: the engine ended, or does not answer."""
        return self.ended_at is not None or self.failure is not None

    @property
    def has_others(self) -> bool:
        """Whether there is another engine or model to go to."""
        return len(self._models) > 1 or any(each != self.engine for each in self.engines)

    @property
    def seconds_a_column(self) -> int:
        """How long a column of a curve stands for."""
        return ZOOMS[self._zoom]

    @property
    def place(self) -> tuple[int, int]:
        """The place of the program among those that run, from 1, and how many there are."""
        engines = self.engines
        at = engines.index(self.engine) + 1 if self.engine in engines else 0
        return at, len(engines)

    @property
    def model_place(self) -> tuple[int, int]:
        """The place of the model in its program, from 1, and how many it has."""
        return min(self._at + 1, len(self._models)), len(self._models)

    def wish(self, details: frozenset[str]) -> Wish:
        """What is to be looked at next."""
        return Wish(self.engine, details)

    # what was seen

    def take(self, seen: Sighting) -> None:
        """Note what a look has seen; a look at another program than the present one is too late."""
        if self.engine is not None and seen.engine != self.engine:
            return
        self.engines = seen.engines
        self.failure = seen.failure
        if seen.snapshot is not None:
            self.engine = seen.engine
            self._take_picture(seen.snapshot)
        elif self.engine is not None and self.engine not in seen.engines:
            self._note_end()

    def _take_picture(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.ended_at = None
        kept = {
            _key(snapshot, model): self._tracks_of(snapshot, model) for model in snapshot.models
        }
        for model in snapshot.models:
            kept[_key(snapshot, model)].follow(snapshot, model)
        others = {key: tracks for key, tracks in self._tracks.items() if key not in kept}
        newest = list(others)[-MAX_KEPT_TRACKS:]
        self._tracks = {**{key: others[key] for key in newest}, **kept}

    def _note_end(self) -> None:
        if self.ended_at is None:
            self.ended_at = self._clock_s()
            self._others = frozenset(self.engines)
        # one that was there all the time is another engine; one that came is this one, back again
        came = [each for each in self.engines if each not in self._others]
        if came or (self.snapshot is None and self.engines):
            self._go_to((came or self.engines)[-1])

    def _tracks_of(self, snapshot: Snapshot, model: ModelStats) -> ModelTracks:
        return self._tracks.setdefault(_key(snapshot, model), ModelTracks())

    # what the user does

    def step(self, by: int) -> bool:
        """Go to the next or previous engine or model; False when there is no other."""
        if not self.has_others:
            return False
        last = len(self._models) - 1
        if 0 <= self._at + by <= last:
            self._place = self._at + by
            return True
        # of a program whose models are not known yet the last one may be meant
        end = 0 if by > 0 else None
        if any(each != self.engine for each in self.engines):
            at = (
                self.engines.index(self.engine)
                if self.engine in self.engines
                else -1
                if by > 0
                else 0
            )
            self._go_to(self.engines[(at + by) % len(self.engines)])
        self._place = end
        return True

    def change_interval(self, by: int) -> None:
        """Look less or more often, as far as it goes."""
        nearest = min(INTERVALS_S, key=lambda each: abs(each - self.interval_s))
        at = INTERVALS_S.index(nearest)
        self.interval_s = INTERVALS_S[max(0, min(len(INTERVALS_S) - 1, at + by))]

    def zoom(self) -> None:
        """Have curves be of a longer time, then of a short one again."""
        self._zoom = (self._zoom + 1) % len(ZOOMS)

    def _go_to(self, engine: str) -> None:
        self.engine = engine
        self._place = 0
        self.ended_at = None
        self._others = frozenset()


def _key(snapshot: Snapshot, model: ModelStats) -> Key:
    return snapshot.program.pid, snapshot.program.started_at, model.name
