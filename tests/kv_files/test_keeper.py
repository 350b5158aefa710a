"""The keeper's thread: nobody waits for it, and no trouble with a disk is anybody else's."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable

import pytest

from localpaged.kv_files.folder import KVFolder, kv_root, name_of
from localpaged.kv_files.identity import KVIdentity, Part
from localpaged.kv_files.keeper import KVKeeper
from localpaged.kv_files.reading import Arrived
from localpaged.kv_files.segment import Segment

IDENTITY = KVIdentity((("weights", "abc"),), 4, (Part("numbers", "I8", 1, 1, (4,)),), 2)
WAIT_S = 10.0


def make_segment(first: int = 0, *, num_tokens: int = 8) -> Segment:
    return Segment(tuple(range(first, first + num_tokens)), 2, (memoryview(bytes(8)),))


class Woken:
    """Counts wakings, and lets a test wait for what they tell."""

    def __init__(self, keeper: KVKeeper) -> None:
        self._woken = threading.Condition()
        keeper.wake = self._wake

    def wait(self, is_there: Callable[[], bool]) -> None:
        with self._woken:
            assert self._woken.wait_for(is_there, WAIT_S)

    def _wake(self) -> None:
        with self._woken:
            self._woken.notify_all()


@pytest.fixture
def make_keeper(home):
    made = []

    def make(**options) -> tuple[KVKeeper, Woken]:
        keeper = KVKeeper(KVFolder(IDENTITY), **{"budget_bytes": 1 << 20, **options})
        keeper.start()
        made.append(keeper)
        return keeper, Woken(keeper)

    yield make
    for keeper in made:
        keeper.close(wait_s=WAIT_S)


def write(keeper: KVKeeper, segment: Segment, chats=("chat",)) -> None:
    name = name_of(segment, IDENTITY)
    keeper.note({chat: [name] for chat in chats})
    keeper.write(segment, name, chats)
    keeper.end_round({chat: [name] for chat in chats})


def read(keeper: KVKeeper, woken: Woken, ids: tuple[int, ...]) -> list[Arrived]:
    keeper.read(ids, num_known=0)
    arrived: list[Arrived] = []
    while not arrived or not arrived[-1].is_last:
        woken.wait(lambda: keeper.has_arrived)
        taken = keeper.take()
        assert taken is not None
        arrived.append(taken)
    return arrived


def test_what_is_written_is_read_by_another_program(make_keeper):
    keeper, _ = make_keeper()
    write(keeper, make_segment())
    keeper.close(wait_s=WAIT_S)
    other, woken = make_keeper()
    assert other.find(tuple(range(9))) == 8
    first, last = read(other, woken, tuple(range(9)))
    assert first.segment is not None and first.segment.ids == tuple(range(8))
    assert last.is_last and not last.reason


def test_what_another_program_wrote_is_found_without_a_restart(make_keeper):
    keeper, woken = make_keeper()
    assert keeper.find(tuple(range(9))) == 0
    other, _ = make_keeper()
    write(other, make_segment())
    other.close(wait_s=WAIT_S)
    assert len(read(keeper, woken, tuple(range(9)))) == 2


def test_files_may_be_deleted_while_it_runs(make_keeper):
    keeper, woken = make_keeper()
    write(keeper, make_segment())
    woken.wait(lambda: keeper.has_room)
    other, other_woken = make_keeper()
    keeper.close(wait_s=WAIT_S)
    for path in kv_root().rglob("*"):
        if path.is_file():
            path.unlink()
    for folder in sorted(kv_root().rglob("*"), reverse=True):
        folder.rmdir()
    (last,) = read(other, other_woken, tuple(range(9)))
    assert last.is_last
    write(other, make_segment())
    other.close(wait_s=WAIT_S)
    assert len(list(kv_root().glob("*/*.safetensors"))) == 1


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_takes_nothing_is_logged_and_no_more(make_keeper, monkeypatch, caplog, number):
    keeper, woken = make_keeper()

    def refuse(*args, **options):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(KVFolder, "write", refuse)
    with caplog.at_level(logging.WARNING):
        write(keeper, make_segment())
        keeper.set_alarm(0.0)
        woken.wait(lambda: keeper.has_rung)
    assert os.strerror(number) in caplog.text


def test_a_disk_that_cannot_be_written_is_read_to_the_end(make_keeper, monkeypatch):
    keeper, woken = make_keeper()
    write(keeper, make_segment())
    woken.wait(lambda: keeper.find(tuple(range(9))) == 8)
    refuse_changes(monkeypatch)
    first, last = read(keeper, woken, tuple(range(9)))
    assert first.num_usable == 2 and last.is_last and not last.reason


def test_a_damaged_file_that_cannot_be_deleted_is_told_and_read_no_further(
    make_keeper, monkeypatch
):
    keeper, woken = make_keeper()
    write(keeper, make_segment())
    woken.wait(lambda: keeper.find(tuple(range(9))) == 8)
    (path,) = kv_root().glob("*/*.safetensors")
    path.write_bytes(path.read_bytes()[:-1])
    refuse_changes(monkeypatch)
    (last,) = read(keeper, woken, tuple(range(9)))
    assert last.is_last and "damaged" in last.reason and "not be deleted" in last.reason


def refuse_changes(monkeypatch) -> None:
    """Let nothing be deleted and no time be set, as on a disk that is read-only by now."""

    def refuse(*args, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "utime", refuse)
    monkeypatch.setattr(os, "unlink", refuse)
    monkeypatch.setattr(KVFolder, "remove", refuse)


def test_the_end_does_not_wait_for_a_disk_that_hangs(make_keeper, monkeypatch):
    keeper, _ = make_keeper()
    is_over = threading.Event()
    monkeypatch.setattr(KVFolder, "write", lambda *args, **options: is_over.wait(WAIT_S))
    write(keeper, make_segment())
    started_s = time.perf_counter()
    keeper.close(wait_s=0.05)
    assert time.perf_counter() - started_s < WAIT_S / 2
    is_over.set()


def test_a_deleted_chat_is_neither_written_nor_kept(make_keeper):
    deleted: set[str] = set()
    keeper, woken = make_keeper(is_deleted=lambda chat: chat in deleted)
    write(keeper, make_segment(), ("gone",))
    write(keeper, make_segment(100), ("shared", "other"))
    keeper.set_alarm(0.0)
    woken.wait(lambda: keeper.has_rung)
    deleted |= {"gone", "shared", "never"}
    write(keeper, make_segment(200), ("never",))
    keeper.close(wait_s=WAIT_S)

    folder = KVFolder(IDENTITY)
    assert sum(map(len, folder.index().values())) == 1
    assert make_keeper()[0].find(tuple(range(100, 109))) == 8


def test_the_budget_is_kept(make_keeper):
    keeper, _ = make_keeper(budget_bytes=2_000)
    for first in range(0, 100, 10):
        write(keeper, make_segment(first))
    keeper.close(wait_s=WAIT_S)
    sizes = [path.stat().st_size for path in kv_root().glob("*/*.safetensors")]
    assert sizes and sum(sizes) <= 2_000
    assert make_keeper()[0].find(tuple(range(90, 99))) == 8, "the last one is kept"


def test_an_alarm_that_was_set_again_does_not_ring(make_keeper):
    keeper, woken = make_keeper()
    keeper.set_alarm(0.0)
    woken.wait(lambda: keeper.has_rung)
    keeper.set_alarm(None)
    assert not keeper.has_rung
