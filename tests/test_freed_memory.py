"""What was freed is given back, and nobody minds where that cannot be done."""

import ctypes

from localpaged import freed_memory


def test_memory_is_given_back(monkeypatch):
    kept_bytes = []

    class Library:
        def malloc_trim(self, padding):
            kept_bytes.append(padding)

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library())
    freed_memory.give_back()
    assert kept_bytes == [0]


def test_another_c_library_keeps_what_it_wants(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    freed_memory.give_back()


def test_it_does_no_harm():
    freed_memory.give_back()
