"""The line under an answer."""

from __future__ import annotations

from localpaged.chat.events import TurnPrefill
from localpaged.engine.events import Usage
from localpaged.engine.finish_reason import FinishReason
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.store.rows import Turn, TurnStatus
from localpaged.tui.figures import byte_size, compact, rate, seconds
from localpaged.tui.glyphs import ASCII, UNICODE
from localpaged.tui.paint import cells_of
from localpaged.tui.session import Answer
from localpaged.tui.transcript.status import Moment, status_runs
from localpaged.tui.widgets.kv_bar import kv_runs

USAGE = Usage(
    prompt_tokens=2_144, cached_tokens=2_048, completion_tokens=431, ttft_s=0.112, decode_s=7.5
)


def line(status: TurnStatus, moment: Moment | None = None, glyphs=UNICODE, **values) -> str:
    answer = Answer(Turn("t", "c", None, None, status, "m"), **values)
    return "".join(run.text for run in status_runs(answer, glyphs, moment or Moment()))


def test_a_finished_answer_tells_what_it_cost():
    assert line(TurnStatus.DONE, token_count=431, usage=USAGE) == (
        "431 tok · 57 tok/s · TTFT 0.11 s · 2,048 cached + 96 new"
    )


def test_a_stopped_answer_says_so_and_how_to_go_on():
    assert line(TurnStatus.STOPPED, token_count=7) == "■ stopped · 7 tok · F5 continues"


def test_what_is_not_known_of_a_stopped_answer_is_not_told_as_nothing():
    usage = Usage(
        prompt_tokens=39, cached_tokens=24, completion_tokens=7, ttft_s=0.0, decode_s=0.0
    )  # as the history has it when the program's end stopped it
    text = line(TurnStatus.STOPPED, token_count=7, usage=usage)
    assert text == "■ stopped · 7 tok · 24 cached + 15 new · F5 continues"


def test_an_answer_interrupted_by_a_crash_is_marked():
    assert line(TurnStatus.INTERRUPTED) == "◐ interrupted · F5 continues"


def test_an_answer_cut_by_its_length_says_so():
    text = line(TurnStatus.DONE, finish_reason=FinishReason.LENGTH)
    assert text == "■ cut at its length limit · F5 continues"


def test_reading_the_prompt_shows_cached_and_new_tokens_apart():
    prefill = TurnPrefill("c", "t", 400, 700, 1_000)
    assert line(TurnStatus.PREFILL, prefill=prefill) == (
        "⠋ reading the prompt  ▒▒▒▒███···  400 cached + 300 of 600 new"
    )


def test_a_running_answer_shows_its_rate():
    text = line(
        TurnStatus.STREAMING, Moment(now_s=12.0), token_count=41, first_text_at=10.0,
        first_token_count=1,
    )  # fmt: skip
    assert text == "⠋ 41 tok · 20 tok/s"


def test_a_queued_answer_tells_what_it_waits_for():
    assert line(TurnStatus.QUEUED) == "◌ queued"
    assert line(TurnStatus.QUEUED, Moment(is_model_ready=False)) == "◌ waits for the model"


def test_ascii_lines_are_ascii():
    prefill = TurnPrefill("c", "t", 400, 700, 1_000)
    for status in TurnStatus:
        assert line(status, glyphs=ASCII, prefill=prefill, usage=USAGE, token_count=9).isascii()


def test_every_glyph_is_one_cell_and_has_an_ascii_twin():
    for name in UNICODE.__slots__:
        if name not in ("spinner", "ellipsis"):
            assert len(getattr(UNICODE, name)) == len(getattr(ASCII, name)) == 1
        assert getattr(ASCII, name).isascii()


def test_the_pool_bar_never_exceeds_its_room_and_counts_blocks_in_use_alone():
    snapshot = EngineSnapshot(total_blocks=256, held_blocks=31, cached_blocks=90, free_blocks=135)
    runs = {cells: kv_runs(snapshot, UNICODE, cells) for cells in range(90)}
    texts = {cells: "".join(run.text for run in runs[cells]) for cells in runs}
    assert all(cells_of(runs[cells]) <= cells for cells in runs)
    assert texts[89].endswith("12 % active  █ 31 active ▒ 90 cached · 135 free")
    assert texts[26] == "KV █▒▒▒▒·····  12 % active"
    assert texts[22].endswith("█▒·  12 % active")
    assert texts[5] == ""


def test_what_is_pinned_is_not_told_as_active():
    snapshot = EngineSnapshot(total_blocks=256, held_blocks=40, pinned_blocks=9, free_blocks=216)
    text = "".join(run.text for run in kv_runs(snapshot, UNICODE, 90))
    assert text.endswith("12 % active  █ 31 active █ 9 pinned ▒ 0 cached · 216 free")


def test_without_a_pool_there_is_no_bar():
    assert kv_runs(EngineSnapshot(), UNICODE, 80) == []


def test_figures_read_like_people_write_them():
    assert [compact(n) for n in (7, 999, 3_121, 32_768, 2_500_000)] == [
        "7", "999", "3.1k", "33k", "2.5M",
    ]  # fmt: skip
    assert byte_size(98_362_432) == "93.8 MiB"
    assert (rate(4.31), rate(57.2)) == ("4.3 tok/s", "57 tok/s")
    assert (seconds(0.114), seconds(12.3)) == ("0.11 s", "12 s")


def test_tokens_of_the_first_moment_tell_no_rate():
    # guessed tokens come together: two in no time are no thousands a second
    text = line(
        TurnStatus.STREAMING, Moment(now_s=10.0001), token_count=3, first_text_at=10.0,
        first_token_count=1,
    )  # fmt: skip
    assert text == "⠋ 3 tok"
