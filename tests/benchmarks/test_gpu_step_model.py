"""The model of a step tells what it assumes, and its numbers are those of the code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import gpu_step_model
from gpu_check_parts.shapes import MODELS, QWEN3_4B, QWEN3_8B
from gpu_issue_model import cycles_a_pass, loops_of
from gpu_model import CARDS, DOCUMENT, written_in
from gpu_step_model import LOOPS, MARKS, PLAIN, attention, parts_of, step

RTX, H200 = CARDS[1], CARDS[3]
SCRIPT = Path(gpu_step_model.__file__).with_name("gpu_issue_model.py")


def attending(card, rows, tokens, **options):
    return attention(card, MODELS[QWEN3_8B], rows=rows, tokens=tokens, **options)


@pytest.mark.parametrize("card", [RTX, CARDS[2], H200], ids=lambda card: card.name)
def test_long_decodes_are_expected_to_meet_their_bar(card):
    for rows in (8, 64):
        assert attending(card, rows, 8_000).share > gpu_step_model.BAR_ATTENTION


def test_a_plain_loop_is_expected_to_miss_it_where_memory_is_fast():
    assert attending(H200, 8, 8_000, loop=PLAIN).share < gpu_step_model.BAR_ATTENTION


def test_fewer_nodes_leave_more_of_the_bandwidth():
    apart, fused = (step(H200, MODELS[QWEN3_4B], is_fused=fused) for fused in (False, True))
    assert (apart.nodes - fused.nodes) == 4 * MODELS[QWEN3_4B].num_layers
    assert apart.share < gpu_step_model.BAR_STEP < fused.share < 1


def test_programs_of_one_length_fill_the_places_and_hardly_more():
    for card in (RTX, CARDS[2], H200):
        places = 2 * gpu_step_model.PACES[card.name].processors
        for rows in (1, 2, 4, 8, 16, 32):
            parts = parts_of(card, MODELS[QWEN3_8B], rows=rows, tokens=8_000, tile=64)
            assert places / 2 < rows * 8 * parts <= places


def test_no_share_is_more_than_all():
    for card in (RTX, H200):
        for rows in (1, 7, 300):
            assert 0 < attending(card, rows, 3_000).share <= 1


def test_the_document_has_the_tables_of_now():
    document = DOCUMENT.read_text()
    told = document.split(MARKS[0])[1].split(MARKS[1])[0]
    assert told.strip() == gpu_step_model.tables(), (
        "run `python benchmarks/gpu_step_model.py --write`"
    )


def test_a_document_without_a_place_for_the_tables_is_refused():
    with pytest.raises(ValueError, match="no place"):
        written_in("nothing", "tables", MARKS)


def test_the_script_says_that_it_measures_nothing(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["gpu_step_model.py"])
    assert gpu_step_model.main() == 0
    assert capsys.readouterr().out.startswith("A MODEL, NOT A MEASUREMENT")


LISTING = """
.L_x_0:
        /*0000*/                   LDGSTS.E.BYPASS.128 [R1], [R2] ;   /* 0x0000000000000000 */
                                                                      /* {upper:#018x} */
        /*0010*/              @!P0 FADD R1, R2, R3 ;                  /* 0x0000000000000000 */
                                                                      /* {upper:#018x} */
        /*0020*/               @P0 BRA `(.L_x_0) ;                    /* 0x0000000000000000 */
                                                                      /* {upper:#018x} */
.L_x_1:
        /*0030*/                   BRA `(.L_x_1);                     /* 0x0000000000000000 */
                                                                      /* {upper:#018x} */
"""


def test_a_loop_takes_its_stalls_and_what_its_pipe_takes():
    no_counters, stall = 0b111_111 << 5, 10
    (loop,) = loops_of(LISTING.format(upper=(no_counters | stall) << 41))
    assert [one.name for one in loop] == ["LDGSTS", "FADD", "BRA"]
    assert cycles_a_pass(loop, 1) == 30
    assert cycles_a_pass(loop, 4) == 4 * 16  # one after the other through shared memory


def test_the_loop_that_the_model_knows_is_the_one_that_is_compiled():
    triton = pytest.importorskip("triton")
    table = (DOCUMENT.parent / "kernel-builds.md").read_text()
    if f"by Triton {triton.__version__}:" not in table:
        pytest.skip("other versions make other code")
    done = subprocess.run(
        [sys.executable, SCRIPT, "decode, bf16, 32/8 of 128, 16 parts, last merges@90"],
        capture_output=True,
        text=True,
        check=True,
        timeout=110,
        env={
            **os.environ,
            "TRITON_CACHE_DIR": str(SCRIPT.parents[1] / ".pytest_cache" / "triton"),
        },
    )
    loop = LOOPS[(9, 0), "bfloat16"]
    told = done.stdout.splitlines()[-1].replace(",", "").split("|")
    instructions, cycles = int(told[-3]), told[-2].split()
    assert instructions == pytest.approx(loop.instructions, rel=0.02)
    assert [int(count) for count in cycles[:2]] == pytest.approx(list(loop.cycles), rel=0.05)
