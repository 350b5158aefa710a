"""What the fused write means: norm, rotation, then the cache; in float32, rounded once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged_kernels.errors import UnsupportedShape
from localpaged_kernels.kv_cache.reference import check_scales, write_kv

if TYPE_CHECKING:
    import torch


def rope_write(
    qkv: torch.Tensor,
    kv: torch.Tensor,
    slots: torch.Tensor,
    *,
    positions: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    scales: torch.Tensor | None = None,
    q_norm: torch.Tensor | None = None,
    k_norm: torch.Tensor | None = None,
    eps: float = 0.0,
) -> torch.Tensor:
    """Return a step's rotated queries [tokens, heads, head_dim] and store its K and V in slots.

    qkv [tokens, heads + 2 · kv_heads, head_dim], queries, keys and values in this order; kv, slots
    and scales as in `write_kv`; positions [tokens] int64. cos and sin [positions, head_dim] are
    float tables, whose halves are the two partners of a rotation, the first half's sine negated:
    a row x becomes x · cos + swapped(x) · sin. With q_norm and k_norm [head_dim] queries and keys
    are first brought to the mean square 1 and multiplied by them. K is rounded to the dtype of qkv,
    then to the cache's. Raises UnsupportedShape when they do not fit.
    """
    check(qkv, kv, scales, q_norm, k_norm)
    kv_heads = kv.shape[3]
    rows = qkv.float()
    keys_end = qkv.shape[1] - kv_heads
    heads = keys_end - kv_heads
    turned = [
        rotate(normalise(part, weight, eps), cos[positions], sin[positions]).to(qkv.dtype)
        for part, weight in ((rows[:, :heads], q_norm), (rows[:, heads:keys_end], k_norm))
    ]
    write_kv(kv, turned[1], qkv[:, keys_end:], slots, scales=scales)
    return turned[0]


def normalise(rows: torch.Tensor, weight: torch.Tensor | None, eps: float) -> torch.Tensor:
    """Return float32 rows divided by their root mean square and multiplied by a weight."""
    if weight is None:
        return rows
    return rows * (rows.square().mean(-1, keepdim=True) + eps).rsqrt() * weight.float()


def rotate(rows: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Return rows [tokens, heads, head_dim] rotated by the angles of their tokens."""
    swapped = rows.roll(rows.shape[-1] // 2, -1)
    return rows * cos.float().unsqueeze(1) + swapped * sin.float().unsqueeze(1)


def check(
    qkv: torch.Tensor,
    kv: torch.Tensor,
    scales: torch.Tensor | None,
    q_norm: torch.Tensor | None,
    k_norm: torch.Tensor | None,
) -> None:
    """Raise UnsupportedShape where the arguments of `rope_write` do not fit together."""
    check_scales(kv, scales)
    if qkv.dim() != 3 or qkv.shape[2] != kv.shape[4] or qkv.shape[1] <= 2 * kv.shape[3]:
        raise UnsupportedShape(
            f"qkv {tuple(qkv.shape)}: expected [tokens, heads + {2 * kv.shape[3]}, {kv.shape[4]}]"
        )
    if (q_norm is None) != (k_norm is None):
        raise UnsupportedShape("queries and keys are both normalised, or neither")
