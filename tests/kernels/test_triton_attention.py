"""Triton's paged attention does what the reference does, and reads nothing that it must not."""

import inspect

import pytest
import torch

from localpaged_kernels import paged_attention
from localpaged_kernels.card import Card
from localpaged_kernels.paged_attention import reference, triton_impl
from localpaged_kernels.paged_attention.device_rows import DeviceRows, rows_of
from localpaged_kernels.paged_attention.triton_launches import Terms, plan
from testkit.attention_inputs import ROWS
from testkit.triton_inputs import DEVICE, LARGE_CARD, TOLERANCE, attend, build_poisoned, endless

BF16, HALF, FP32 = torch.bfloat16, torch.float16, torch.float32
INT8, FP8 = torch.int8, torch.float8_e4m3fn
LONG = [(1, 100), (1, 3), (5, 70)]
NARROW = {"kv_heads": 1, "group": 4}


def check(rows, *, shape=None, num_splits=None, is_last_merging=False, has_sinks=False, **numbers):
    queries, kv, scales, batch = build_poisoned(rows, **(shape or {}))
    numbers = {"scale": queries.shape[2] ** -0.5, "kv_scales": scales, **numbers}
    if has_sinks:
        numbers["sinks"] = torch.linspace(-2, 2, queries.shape[1])
    got = attend(
        queries, kv, batch, num_splits=num_splits, is_last_merging=is_last_merging, **numbers
    )
    want = reference.paged_attention(queries, kv, batch, **numbers)
    tolerance = TOLERANCE[queries.dtype]
    torch.testing.assert_close(got, want, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS.keys())
def test_rows_of_every_kind(rows):
    check(rows)


def test_chunks_begin_wherever_the_decodes_end():
    for num_decodes in (3, 4, 9):
        rows = [(1, 5)] * num_decodes + [(3, 9), (6, 6), (2, 30)]
        check(rows, shape={**NARROW, "dtype": FP32})


@pytest.mark.parametrize("dtype", [BF16, HALF, FP32], ids=str)
@pytest.mark.parametrize("dim", [64, 80, 96, 112, 120, 128, 256])
def test_every_head_size_and_dtype(dim, dtype):
    check([(1, 33), (5, 21)], shape={"dim": dim, "dtype": dtype})


@pytest.mark.parametrize(("kv_heads", "group"), [(1, 1), (3, 3), (1, 8), (2, 7), (1, 24)])
def test_every_grouping_of_heads(kv_heads, group):
    check([(1, 33), (7, 19)], shape={"kv_heads": kv_heads, "group": group})


@pytest.mark.parametrize("block_size", [8, 32, 64])
def test_a_tile_may_be_longer_or_shorter_than_a_block(block_size):
    check([(1, 50), (9, 70)], shape={"block_size": block_size})


@pytest.mark.parametrize("is_last_merging", [False, True], ids=["second launch", "last merges"])
@pytest.mark.parametrize("num_splits", [None, 5])
@pytest.mark.parametrize("window", [None, 40])
def test_a_sequence_cut_into_parts_is_put_together_again(num_splits, window, is_last_merging):
    check(LONG, shape=NARROW, num_splits=num_splits, is_last_merging=is_last_merging, window=window)


@pytest.mark.parametrize("num_splits", [1, 3])
@pytest.mark.parametrize(
    "numbers",
    [
        {"window": 1},
        {"window": 17},
        {"softcap": 3.0},
        {"has_sinks": True},
        {"window": 33, "softcap": 0.5, "has_sinks": True},
    ],
    ids=str,
)
def test_windows_caps_and_sinks(numbers, num_splits):
    check(LONG, shape=NARROW, num_splits=num_splits, **numbers)


@pytest.mark.parametrize("num_splits", [1, 3])
@pytest.mark.parametrize("kv_dtype", [INT8, FP8], ids=str)
@pytest.mark.parametrize("dtype", [BF16, HALF, FP32], ids=str)
def test_a_cache_of_eight_bits(dtype, kv_dtype, num_splits):
    check(
        LONG,
        shape={**NARROW, "dtype": dtype, "kv_dtype": kv_dtype},
        num_splits=num_splits,
        window=60,
    )


@pytest.mark.parametrize("capability", [(8, 0), (9, 0)], ids=["bits", "native"])
def test_every_number_of_fp8_is_read_as_it_is(capability):
    numbers = torch.arange(256, dtype=torch.uint8)
    numbers[(numbers & 0x7F) == 0x7F] = 0  # what is not a number
    kv = torch.zeros(2, 16, 2, 1, 256, dtype=torch.uint8)
    kv[1, 0, 1, 0] = numbers
    tables, lens = torch.tensor([[1]]).int().to(DEVICE), torch.tensor([1]).int().to(DEVICE)
    out = torch.empty(1, 1, 256, device=DEVICE)
    for launch in plan(
        out,
        torch.zeros_like(out),
        kv.view(FP8).to(DEVICE),
        DeviceRows(tables, lens, None, 0, 1),
        Terms(1.0, kv_scales=torch.ones(kv.shape[:-1], device=DEVICE)),
        card=Card(capability, 1),
    ):
        launch.run()
    assert torch.equal(out[0, 0].cpu(), numbers.view(FP8).float())


def test_tiny_scales_do_not_vanish_in_half_precision():
    queries, kv, scales, batch = build_poisoned(LONG, dtype=HALF, kv_dtype=INT8)
    scales[:, :, 1] *= 1e-5
    got = attend(queries, kv, batch, scale=0.3, kv_scales=scales)
    want = reference.paged_attention(queries.float(), kv, batch, scale=0.3, kv_scales=scales)
    torch.testing.assert_close(got.float() * 1e5, want * 1e5, atol=5e-3, rtol=2e-2)


def test_queries_may_be_a_part_of_a_wider_tensor():
    queries, kv, _, batch = build_poisoned(LONG)
    wide = torch.full((queries.shape[0], queries.shape[1] + 4, queries.shape[2]), float("nan"))
    wide = wide.to(queries.dtype)
    wide[:, : queries.shape[1]] = queries
    got = attend(wide[:, : queries.shape[1]], kv, batch, scale=0.3)
    torch.testing.assert_close(got, attend(queries, kv, batch, scale=0.3), atol=0, rtol=0)


@pytest.mark.parametrize("is_last_merging", [False, True])
def test_a_row_without_tokens_gets_zeros_and_its_table_is_never_followed(is_last_merging):
    queries, kv, _, batch = build_poisoned([(1, 40), (1, 70)])
    (rows,) = rows_of(batch, DEVICE)
    lens = torch.tensor([40, 0], dtype=torch.int32, device=DEVICE)
    tables = rows.tables.clone()
    tables[1] = 2**30
    padded = DeviceRows(tables, lens, None, 0, 2)
    want = attend(queries, kv, batch, scale=0.3)[0]
    for num_splits in (1, 4):
        out = torch.full_like(queries, float("nan"), device=DEVICE)
        arrivals = torch.zeros(99, dtype=torch.int32, device=DEVICE) if is_last_merging else None
        for launch in plan(
            out,
            queries.to(DEVICE),
            kv.to(DEVICE),
            padded,
            Terms(0.3),
            num_splits=num_splits,
            arrivals=arrivals,
        ):
            launch.run()
        torch.testing.assert_close(out[0].cpu(), want, atol=2e-2, rtol=2e-2)
        assert not out[1].any()


@pytest.mark.filterwarnings("ignore:All-NaN slice")
@pytest.mark.parametrize("num_splits", [1, 4])
@pytest.mark.parametrize("spoiled", ["query", "key", "value"])
def test_what_is_not_a_number_stays_visible_in_its_own_row_alone(spoiled, num_splits):
    queries, kv, _, batch = build_poisoned([(1, 100), (1, 70)])
    block = batch.tables[0][3]
    if spoiled == "query":
        queries[0] = float("nan")
    else:
        kv[block, 5, 0 if spoiled == "key" else 1] = float("nan")
    got = attend(queries, kv, batch, scale=0.3, num_splits=num_splits)
    assert got[0].isnan().all()
    assert got[1].isfinite().all()


@pytest.mark.parametrize("kv_dtype", [None, INT8], ids=str)
def test_addresses_beyond_two_to_the_31st(kv_dtype):
    kv_heads, dim, block_size = 2, 128, 16
    num_blocks = 2**31 // (block_size * 2 * kv_heads * dim) + 9
    queries, kv, scales, batch = build_poisoned(
        [(1, 45), (3, 20)], kv_dtype=kv_dtype, kv_heads=kv_heads, dim=dim, block_size=block_size
    )
    far = endless((num_blocks, *kv.shape[1:]), kv.dtype)
    far_scales = None if scales is None else endless((num_blocks, *scales.shape[1:]), scales.dtype)
    last = num_blocks - 1
    for rows in rows_of(batch, DEVICE):
        for table, length in zip(rows.tables, rows.lens, strict=True):
            for i in range(-(-int(length) // block_size)):
                far[last] = kv[table[i]]
                if scales is not None:
                    far_scales[last] = scales[table[i]]
                table[i] = last
                last -= 1
    assert far.numel() > 2**31
    got = attend(queries, far, batch, scale=0.1, kv_scales=far_scales)
    fresh = build_poisoned(
        [(1, 45), (3, 20)], kv_dtype=kv_dtype, kv_heads=kv_heads, dim=dim, block_size=block_size
    )
    want = reference.paged_attention(fresh[0], fresh[1], fresh[3], scale=0.1, kv_scales=fresh[2])
    torch.testing.assert_close(got, want, atol=2e-2, rtol=2e-2)


def test_the_number_of_parts_follows_from_widths_and_never_from_lengths():
    queries, kv, _, batch = build_poisoned([(1, 600), (1, 5)])
    (rows,) = rows_of(batch, DEVICE)
    out = torch.empty_like(queries)
    planned = plan(out, queries, kv, rows, Terms(1.0), card=LARGE_CARD)
    shorter = DeviceRows(rows.tables, rows.lens * 0 + 1, None, 0, 2)
    again = plan(out, queries, kv, shorter, Terms(1.0), card=LARGE_CARD)
    assert [launch.grid for launch in planned] == [launch.grid for launch in again]
    assert planned[0].grid == (2, 2, 4)


@pytest.mark.parametrize("size", [1e7, 1e-9, 0.0])
def test_queries_that_no_half_could_hold_meet_a_cache_of_eight_bits(size):
    queries, kv, scales, batch = build_poisoned([(1, 45), (3, 20)], kv_dtype=INT8)
    numbers = {"scale": 0.2 / max(size, 1.0), "kv_scales": scales}
    got = attend(queries * size, kv, batch, **numbers)
    want = reference.paged_attention(queries * size, kv, batch, **numbers)
    torch.testing.assert_close(got, want, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("is_last_merging", [False, True], ids=["second launch", "last merges"])
def test_a_long_sequence_among_short_ones_does_not_keep_them_waiting(is_last_merging):
    rows = [(1, 9), (1, 900), (1, 30), (1, 17)]
    check(rows, shape={**NARROW, "dim": 64}, is_last_merging=is_last_merging)


def test_parts_are_cut_by_how_long_a_sequence_is_beside_the_others():
    queries, kv, _, batch = build_poisoned([(1, 600), (1, 9), (1, 200)], **NARROW)
    (rows,) = rows_of(batch, DEVICE)
    card = Card((8, 6), 4)  # room for eight programs
    launch = plan(torch.empty_like(queries), queries, kv, rows, Terms(1.0), card=card)[0]
    launch.args["tops_ptr"].fill_(float("nan"))
    launch.run()
    tops = launch.args["tops_ptr"]
    assert not tops.isnan().any()
    assert (tops > -float("inf")).sum(2).tolist() == [[5] * 4, [1] * 4, [1] * 4]


def test_parts_are_no_more_than_a_window_or_a_shared_beginning_has_use_for():
    queries, kv, _, batch = build_poisoned([(1, 600), (1, 300)], **NARROW)
    (rows,) = rows_of(batch, DEVICE)

    def parts(**numbers):
        launch = plan(queries, queries, kv, rows, Terms(1.0, **numbers), card=Card((8, 6), 8))[0]
        return launch.grid[2], launch.constants["IS_BALANCED"]

    assert parts() == (8, True)
    assert parts(window=1_000) == (8, False)
    assert parts(window=100) == (2, False)


def test_prompts_are_put_together_by_a_second_launch():
    queries, kv, _, batch = build_poisoned([(40, 900)], **NARROW)
    (rows,) = rows_of(batch, DEVICE)
    arrivals = torch.zeros(64, dtype=torch.int32, device=DEVICE)
    planned = plan(queries, queries, kv, rows, Terms(1.0), card=LARGE_CARD, arrivals=arrivals)
    assert [launch.kernel.__name__ for launch in planned] == ["attend", "merge"]


def test_what_grows_with_a_chat_is_no_constant_and_is_not_looked_at_closer():
    compiled_for = set()
    queries = torch.zeros(2, 4, 32)
    for num_rows, width, num_splits in ((1, 7, 2), (2, 16, 4), (2, 4096, 16)):
        kv = torch.zeros(9, 16, 2, 2, 32)
        tables, lens = torch.zeros(num_rows, width).int(), torch.zeros(num_rows).int()
        for starts in (None, torch.arange(num_rows + 1).int()):
            rows = DeviceRows(tables, lens, starts, 0, num_rows)
            for launch in plan(queries, queries, kv, rows, Terms(1.0), num_splits=num_splits):
                compiled_for.add((launch.kernel, *sorted(launch.constants.items())))
                changing = {"num_rows", "first_query", "table_stride", "num_splits", "num_slots"}
                assert changing & set(launch.args) <= {
                    p.name for p in raw_parameters(launch.kernel) if p.do_not_specialize
                }
    assert len(compiled_for) == 3, "decodes, chunks, and what puts parts together"


def test_where_a_step_s_chunks_begin_compiles_nothing_anew():
    queries, kv = torch.zeros(9, 9, 32), torch.zeros(9, 16, 2, 3, 32)
    compiled_for = set()
    for first in (0, 1, 2):
        rows = DeviceRows(
            torch.zeros(1, 8).int(),
            torch.zeros(1).int(),
            torch.tensor([first, 9]).int(),
            first,
            9 - first,
        )
        for launch in plan(queries, queries, kv, rows, Terms(1.0), num_splits=2):
            looked_at = {p.name for p in raw_parameters(launch.kernel) if not p.do_not_specialize}
            addresses = {
                name: (value.data_ptr() - value.untyped_storage().data_ptr()) % 16
                for name, value in launch.args.items()
                if name in looked_at and isinstance(value, torch.Tensor)
            }
            assert addresses
            compiled_for.add((launch.kernel, *sorted(addresses.items())))
    assert len(compiled_for) == 2, "what attends and what puts parts together"


def raw_parameters(kernel):
    if DEVICE.type == "cuda":
        return kernel.params
    from triton.runtime.jit import KernelParam

    spared = set(kernel.kwargs.get("do_not_specialize", ()))
    signature = inspect.signature(kernel.fn)
    return [
        KernelParam(i, parameter, name in spared, False)
        for i, (name, parameter) in enumerate(signature.parameters.items())
    ]


def test_a_gpu_gets_tritons_kernels_and_all_that_was_asked(monkeypatch):
    class OnGpu(torch.Tensor):
        device = torch.device("cuda")

    asked = {}
    monkeypatch.setattr(
        triton_impl, "paged_attention", lambda *tensors, **numbers: asked.update(numbers)
    )
    queries, kv, scales, batch = build_poisoned(LONG, kv_dtype=INT8)
    numbers = {"scale": 0.3, "window": 5, "softcap": 2.0, "sinks": torch.zeros(4)}
    paged_attention(
        queries.as_subclass(OnGpu), kv.as_subclass(OnGpu), batch, kv_scales=scales, **numbers
    )
    assert asked == {**numbers, "kv_scales": scales}


def test_the_cpu_knows_caps_and_sinks_too():
    queries, kv, _, batch = build_poisoned(LONG, dtype=FP32, **NARROW)
    numbers = {"scale": 0.3, "softcap": 2.0, "sinks": torch.linspace(-1, 1, 4)}
    got = paged_attention(queries, kv, batch, **numbers)
    assert torch.equal(got, reference.paged_attention(queries, kv, batch, **numbers))


def test_the_reference_caps_scores_and_lets_sinks_take_weight():
    queries, kv, _, batch = build_poisoned([(1, 9)], dtype=FP32, group=1)
    sinks = torch.tensor([0.5, -1.0])
    k, v = kv[batch.tables[0]].flatten(0, 1)[:9].permute(1, 2, 0, 3)
    scores = 2.0 * ((k @ queries[0].unsqueeze(-1))[..., 0] * 0.3 / 2.0).tanh()
    weights = scores.exp() / (scores.exp().sum(-1, keepdim=True) + sinks.exp().unsqueeze(-1))
    want = (weights.unsqueeze(1) @ v)[:, 0]
    got = reference.paged_attention(queries, kv, batch, scale=0.3, softcap=2.0, sinks=sinks)
    torch.testing.assert_close(got[0], want, atol=1e-5, rtol=1e-5)
