"""The collector of cycles rests while modules are imported, and only then."""

from __future__ import annotations

import gc

import pytest

from localpaged.cycles import collecting_none


def test_nothing_is_collected_meanwhile_and_afterwards_again():
    assert gc.isenabled()
    with collecting_none():
        assert not gc.isenabled()
        with collecting_none():
            pass
        assert not gc.isenabled(), "the outer one is not over"
    assert gc.isenabled()


def test_what_fails_meanwhile_leaves_the_collector_as_it_was():
    with pytest.raises(ImportError), collecting_none():
        raise ImportError
    assert gc.isenabled()
