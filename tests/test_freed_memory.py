"""What was freed is given back, and nobody minds where that cannot be done."""

import ctypes
import sys
from types import SimpleNamespace

import pytest

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


@pytest.mark.parametrize("is_used", [True, False])
def test_what_torch_keeps_of_a_card_is_given_back_where_one_is_used(monkeypatch, is_used):
    given_back = []
    cuda = SimpleNamespace(
        is_initialized=lambda: is_used, empty_cache=lambda: given_back.append(True)
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    freed_memory.give_back()
    assert bool(given_back) is is_used


def test_it_does_no_harm():
    freed_memory.give_back()
