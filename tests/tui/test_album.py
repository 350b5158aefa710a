"""Comparing pictures with those that are kept: what differs is shown, nothing passes unseen."""

from __future__ import annotations

import pytest

from testkit.snapshots import ACCEPT_VARIABLE, Album, normal


@pytest.fixture(autouse=True)
def comparing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ACCEPT_VARIABLE, raising=False)


def test_a_difference_is_shown_line_by_line_with_the_way_to_accept_it(tmp_path):
    (tmp_path / "chat.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    album = Album(tmp_path)
    album.compare("chat", "one\n2\nthree\n")
    with pytest.raises(AssertionError) as failure:
        album.check()
    assert "-two\n+2\n" in str(failure.value)
    assert f"{ACCEPT_VARIABLE}=1" in str(failure.value)
    assert (tmp_path / "chat.txt").read_text(encoding="utf-8") == "one\ntwo\nthree\n"


def test_a_missing_picture_fails_and_every_fault_is_told(tmp_path):
    (tmp_path / "kept.txt").write_text("kept\n", encoding="utf-8")
    album = Album(tmp_path)
    album.compare("new", "this is new\n")
    album.compare("kept", "changed\n")
    with pytest.raises(AssertionError, match=r"no snapshot new\.txt") as failure:
        album.check()
    assert "this is new" in str(failure.value) and "+changed" in str(failure.value)
    assert not (tmp_path / "new.txt").exists()


def test_accepting_writes_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.setenv(ACCEPT_VARIABLE, "1")
    album = Album(tmp_path / "snapshots")
    album.compare("chat", "one\n")
    album.check()
    monkeypatch.delenv(ACCEPT_VARIABLE)
    again = Album(tmp_path / "snapshots")
    again.compare("chat", "one\n")
    again.check()


def test_blanks_at_the_ends_of_lines_and_the_spinners_frame_do_not_count():
    assert normal("⠙ 3 tok   \n  \nthought for 12.5 s") == "⠋ 3 tok\n\nthought for 0.0 s\n"
