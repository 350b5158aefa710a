"""What the proof stands on: its inputs, its peers, its clock, its budgets of time and memory."""

import time

import pytest
import torch

from gpu_check_parts import check_cascade, check_kernels
from gpu_check_parts.attention_inputs import Shape, batch_of, poisoned
from gpu_check_parts.attention_work import Work, dense, sdpa, tensors_of, varlen
from gpu_check_parts.bench import REHEARSED_BYTES, Bench
from gpu_check_parts.check_traffic import draw
from gpu_check_parts.checks import Conditions
from gpu_check_parts.comparing import equal, share_of_tolerance
from gpu_check_parts.entries import Case, Fault, Skip
from gpu_check_parts.ours import Ours, Sizes
from gpu_check_parts.shapes import TINY
from gpu_check_parts.stopwatch import Stopwatch, times_of
from localpaged.engine.flight import FlyingRunner
from localpaged_kernels.launch import Launch
from localpaged_kernels.paged_attention.reference import paged_attention

CPU = torch.device("cpu")
SHAPE = Shape(heads=4, kv_heads=2, dim=16, dtype=torch.float32)
WORKS = [Work(SHAPE, 3, 1, 300), Work(SHAPE, 2, 7, 40)]


def bench(*, is_rehearsal=False, left_s=5.0):
    return Bench(Conditions(is_rehearsal, time.monotonic() + left_s))


def computed(work):
    """Return a work's tensors with the result that the reference has."""
    tensors = tensors_of(work, CPU)
    tables = [table.long() for table in tensors.tables]
    batch = batch_of([(work.queries, work.tokens)] * work.rows, tables, work.shape.block_size)
    scale = work.shape.dim**-0.5
    tensors.out.copy_(paged_attention(tensors.queries, tensors.kv, batch, scale=scale))
    return tensors


def fake_varlen(*, least_page=1, needs_key_starts=False):
    """Return a plain torch function with the arguments and the demands of torch's."""

    def attend(
        q, k, v, cu_q, cu_k, max_q, max_k, *, window_size, enable_gqa, seqused_k, block_table
    ):
        assert (window_size, enable_gqa) == ((-1, 0), True)
        if k.shape[1] < least_page:
            raise RuntimeError(f"Paged KV cache block size must be divisible by {least_page}")
        if (cu_k is None) == needs_key_starts:
            raise ValueError("cu_seq_k")
        tables = [row.long() for row in block_table]
        assert [max_k] * len(tables) == seqused_k.tolist()
        lens = zip(cu_q.diff().tolist(), seqused_k.tolist(), strict=True)
        batch = batch_of(list(lens), tables, k.shape[1])
        kv = torch.stack((k, v), dim=2)
        return paged_attention(q, kv, batch, scale=q.shape[2] ** -0.5)

    return attend


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.name)
@pytest.mark.parametrize("needs_key_starts", [False, True])
@pytest.mark.parametrize(("least_page", "page"), [(1, 16), (256, 256)])
def test_varlen_attn_is_given_what_it_takes_and_the_same_work(
    work, least_page, page, needs_key_starts
):
    attn = fake_varlen(least_page=least_page, needs_key_starts=needs_key_starts)
    tensors = computed(work)
    peer = varlen(work, tensors, attn, settle=lambda: None)
    assert peer.note == f"varlen_attn in pages of {page}"
    assert peer.error < 0.01
    torch.testing.assert_close(peer.attend(), tensors.out)


def test_a_varlen_attn_that_takes_nothing_is_told_in_its_own_words():
    work = WORKS[0]
    with pytest.raises(RuntimeError, match="divisible by 512"):
        varlen(work, computed(work), fake_varlen(least_page=512), settle=lambda: None)


def test_a_varlen_attn_that_does_something_else_does_not_agree():
    work = WORKS[0]
    tensors = computed(work)
    attn = fake_varlen()
    tensors.kv.mul_(2)
    assert varlen(work, tensors, attn, settle=lambda: None).error > 1


def test_sdpa_over_dense_kv_is_the_same_work():
    work = WORKS[0]
    tensors = computed(work)
    got = sdpa(work, tensors)()[:, :, 0]
    torch.testing.assert_close(got, tensors.out)
    assert dense(work, tensors)[0].shape == (3, 2, 300, 16)
    assert sdpa(WORKS[1], tensors) is None


def test_bytes_and_operations_are_those_of_the_work():
    decode, chunk = WORKS
    assert decode.kv_bytes == 2 * 3 * 300 * 2 * 16 * 4
    assert decode.moved_bytes == decode.kv_bytes + 2 * 3 * 4 * 16 * 4
    assert chunk.operations == 4 * 2 * 4 * 16 * sum(range(34, 41))
    eight_bit = Work(Shape(kv_heads=1, dim=100, kv_dtype=torch.int8), 1, 1, 10)
    assert eight_bit.kv_bytes == 2 * 10 * (100 + 4)


def test_what_nobody_wrote_is_not_a_number_and_everything_else_is():
    inputs = poisoned(((1, 20), (5, 40)), Shape(2, 1, 8, dtype=torch.float32))
    written = inputs.kv[torch.cat(inputs.batch.tables)].isfinite().all(-1).all(-1).all(-1)
    assert written.sum() == 20 + 40
    assert inputs.kv[0].isnan().all()


def test_members_share_their_first_blocks_and_nothing_else():
    inputs = poisoned(((1, 40), (1, 50), (1, 30)), Shape(2, 1, 8), shared_blocks=2, members=2)
    first, second, third = (set(table.tolist()) for table in inputs.batch.tables)
    assert len(first & second) == 2
    assert not third & (first | second)


def test_errors_are_shares_of_what_is_tolerated():
    want = torch.tensor([1.0, 2.0, float("inf"), float("nan")])
    assert share_of_tolerance(want, want.clone(), absolute=0.1, relative=0) == 0
    got = torch.tensor([1.05, 2.2, float("inf"), float("nan")])
    assert share_of_tolerance(got, want, absolute=0.1, relative=0) == pytest.approx(2)
    for bad in ([1.0, 2.0, 3.0, float("nan")], [float("nan"), 2.0, float("inf"), float("nan")]):
        assert share_of_tolerance(torch.tensor(bad), want, absolute=9, relative=9) == float("inf")
    assert share_of_tolerance(want, want[:2], absolute=9, relative=9) == float("inf")
    assert equal(want[:2], want[:2]) == 0
    assert equal(want[:2], want[1:3]) == float("inf")


def test_a_median_has_its_quartiles():
    times = times_of([5.0, 1.0, 3.0, 2.0, 4.0])
    assert (times.low, times.median, times.high, times.runs) == (2.0, 3.0, 4.0, 5)
    assert times_of([7.0]).median == 7.0


def test_what_is_timed_has_run_before():
    runs = []
    times = Stopwatch(CPU).whole(lambda: runs.append(len(runs)), runs=4, warm_runs=3)
    assert (len(runs), times.runs) == (7, 4)


def test_what_would_run_past_the_budget_is_left_out_with_the_reason():
    assert bench(left_s=5.0).lacks_time("it", 4.0) is None
    assert bench(left_s=5.0).lacks_time("it", 6.0) == Skip("it", "5 s were left, it may take 6 s")
    assert bench(is_rehearsal=True, left_s=0).lacks_time("it", 6.0) is None


def test_what_does_not_fit_is_left_out_with_the_numbers():
    there = bench(is_rehearsal=True)
    assert there.lacks_memory("it", REHEARSED_BYTES // 2) is None
    assert there.lacks_memory("it", 2 * REHEARSED_BYTES) == Skip(
        "it", "it takes 2.0 GiB, 1.0 GiB are free"
    )


def test_shards_share_the_cases_and_leave_none_out():
    cases = {str(i): i for i in range(11)}
    told = []
    for shard in range(3):
        told += Bench(Conditions(True, 0.0, shard, 3)).mine(cases)
    assert sorted(told) == sorted(cases.items())


def test_traffic_has_the_lengths_of_the_paper_and_none_that_is_too_long():
    lengths = draw(4_000, seed=1, most=100_000)
    prompts, answers = zip(*lengths, strict=True)
    assert sum(prompts) / 4_000 == pytest.approx(161, rel=0.05)
    assert sum(answers) / 4_000 == pytest.approx(338, rel=0.05)
    assert max(max(pair) for pair in draw(4_000, seed=1)) == 512


def test_steps_of_the_proof_are_launched_ahead_as_the_programs_are():
    ours = Ours(bench(is_rehearsal=True), TINY, Sizes(256, 128, 2, 64))
    assert isinstance(ours.runner, FlyingRunner)
    steps = ours.decode_steps(1, prompt_tokens=3, steps=2, warm_steps=1)
    assert steps.num_ahead >= 2
    assert all(
        0 <= host <= step for host, step in zip(steps.host_seconds, steps.seconds, strict=True)
    )
    ours.core.check()


def test_a_cascade_that_does_nothing_is_found_out(monkeypatch):
    monkeypatch.setattr(check_cascade, "_steps", lambda bench: iter(()))
    launched = check_cascade.plan_cascade
    monkeypatch.setattr(check_cascade, "plan_cascade", lambda *given: launched(*given)[:0])
    told = list(check_cascade.run(bench(is_rehearsal=True)))
    cases = [entry for entry in told if isinstance(entry, Case)]
    assert cases
    assert not any(case.is_ok for case in cases)


def test_kernels_that_do_nothing_are_all_found_out(monkeypatch):
    monkeypatch.setattr(Launch, "run", lambda launch: None)
    told = list(check_kernels.run(bench(is_rehearsal=True)))
    wrong = [entry for entry in told if isinstance(entry, Fault) or not entry.is_ok]
    assert [entry for entry in told if entry not in wrong] == []
    assert len(wrong) > 10
