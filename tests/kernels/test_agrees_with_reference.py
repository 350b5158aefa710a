"""Every fast path of an operator does what its plain reference does, on odd shapes too."""

import pytest
import torch

from localpaged_kernels import (
    UnsupportedShape,
    copy_blocks,
    paged_attention,
    write_kv,
)
from localpaged_kernels.paged_attention import reference
from testkit.attention_inputs import ROWS, build

TOLERANCE = {torch.float32: (1e-5, 1e-5), torch.bfloat16: (2e-2, 2e-2)}


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS.keys())
@pytest.mark.parametrize("window", [None, 1, 5, 40])
@pytest.mark.parametrize("is_shuffled", [True, False], ids=["scattered", "side by side"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_paged_attention(rows, window, is_shuffled, dtype):
    queries, kv, batch = build(rows, dtype=dtype, is_shuffled=is_shuffled)
    assert is_shuffled or all(run is not None for run in batch.runs)
    got = paged_attention(queries, kv, batch, scale=0.3, window=window)
    want = reference.paged_attention(queries, kv, batch, scale=0.3, window=window)
    atol, rtol = TOLERANCE[dtype]
    torch.testing.assert_close(got, want, atol=atol, rtol=rtol)


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS.keys())
@pytest.mark.parametrize("window", [None, 5, 40])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_paged_attention_with_a_cap(rows, window, dtype):
    queries, kv, batch = build(rows, dtype=dtype)
    numbers = {"scale": 2.0, "window": window, "softcap": 3.0}
    got = paged_attention(queries, kv, batch, **numbers)
    want = reference.paged_attention(queries, kv, batch, **numbers)
    atol, rtol = TOLERANCE[dtype]
    torch.testing.assert_close(got, want, atol=atol, rtol=rtol)
    uncapped = paged_attention(queries, kv, batch, scale=2.0, window=window)
    is_one_token = window == 1 or all(seq_len == 1 for _, seq_len in rows)
    assert is_one_token or not torch.allclose(got, uncapped, atol=0.1)


@pytest.mark.parametrize("dim", [64, 80, 96, 112, 128])
@pytest.mark.parametrize(("kv_heads", "group"), [(1, 1), (3, 3), (1, 8), (4, 1)])
def test_paged_attention_of_every_head_shape(dim, kv_heads, group):
    queries, kv, batch = build(ROWS["mixed"], dim=dim, kv_heads=kv_heads, group=group)
    got = paged_attention(queries, kv, batch, scale=dim**-0.5)
    want = reference.paged_attention(queries, kv, batch, scale=dim**-0.5)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def test_the_reference_is_dense_attention():
    queries, kv, batch = build([(20, 20)], group=1)
    keys, values = kv[batch.tables[0]].flatten(0, 1)[:20].permute(1, 2, 0, 3)
    dense = torch.nn.functional.scaled_dot_product_attention(
        queries.transpose(0, 1), keys, values, is_causal=True, scale=0.3
    )
    got = reference.paged_attention(queries, kv, batch, scale=0.3)
    torch.testing.assert_close(got, dense.transpose(0, 1), atol=1e-5, rtol=1e-5)


def test_what_a_batch_shares_between_layers_does_not_mix_windows():
    queries, kv, batch = build(ROWS["mixed"])
    for window in (None, 4, None):
        got = paged_attention(queries, kv, batch, scale=0.3, window=window)
        want = reference.paged_attention(queries, kv, batch, scale=0.3, window=window)
        torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, kv: (q[1:], kv), r"expected \[29, heads"),
        (lambda q, kv: (q, kv[..., :8]), "expected"),
        (lambda q, kv: (q[:, :3], kv), "do not divide"),
        (lambda q, kv: (q.double(), kv), "float64"),
    ],
    ids=["queries", "head_dim", "heads", "dtype"],
)
def test_paged_attention_refuses_what_does_not_fit(change, message):
    queries, kv, batch = build([(1, 33), (1, 7), (22, 22), (3, 50), (2, 2)])
    with pytest.raises(UnsupportedShape, match=message):
        paged_attention(*change(queries, kv), batch, scale=1.0)


def test_write_kv_stores_each_row_in_its_slot_alone():
    kv = torch.zeros(5, 4, 2, 3, 8)
    keys, values = torch.randn(3, 3, 8), torch.randn(3, 3, 8)
    slots = torch.tensor([6, 19, 4])
    write_kv(kv, keys, values, slots)
    for i, slot in enumerate(slots.tolist()):
        torch.testing.assert_close(kv[slot // 4, slot % 4, 0], keys[i])
        torch.testing.assert_close(kv[slot // 4, slot % 4, 1], values[i])
    assert (kv != 0).any(dim=-1).sum() == 2 * 3 * 3


def test_write_kv_refuses_other_shapes():
    with pytest.raises(UnsupportedShape, match="must be"):
        write_kv(
            torch.zeros(5, 4, 2, 3, 8), torch.zeros(1, 3, 4), torch.zeros(1, 3, 4), torch.zeros(1)
        )


def test_copy_blocks_reads_everything_before_it_writes():
    kv = torch.randn(3, 6, 4, 2, 2, 8)
    before = kv.clone()
    copy_blocks(kv, torch.tensor([2, 3]), torch.tensor([3, 4]))
    torch.testing.assert_close(kv[:, 3], before[:, 2])
    torch.testing.assert_close(kv[:, 4], before[:, 3])
    torch.testing.assert_close(kv[:, [0, 1, 2, 5]], before[:, [0, 1, 2, 5]])
