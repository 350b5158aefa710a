"""Attention whose scores are kept between two caps, of torch's plain operators.

torch's fused attention knows no caps; scores exist here, in float32.
"""

from __future__ import annotations

import torch


def capped_attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    *,
    scale: float,
    softcap: float,
) -> torch.Tensor:
    """Return softmax(cap · tanh(scale · q kᵀ / cap) + mask) v, like queries.

    queries [..., rows, dim]; keys and values [..., tokens, dim]; an additive mask that can be added
    to [..., rows, tokens].
    """
    scores = (queries @ keys.transpose(-1, -2)).float()
    scores.mul_(scale / softcap).tanh_().mul_(softcap)
    if mask is not None:
        scores += mask
    return scores.softmax(-1).to(values.dtype) @ values


def capped_chunk(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor,
    *,
    scale: float,
    softcap: float,
) -> torch.Tensor:
    """Return the attention of a chunk [kv_heads, group, queries, dim] of one sequence.

    keys and values [kv_heads, tokens, dim]; mask [queries, tokens]. One KV head after the other:
    the scores of all would be larger than what they are made of.
    """
    kv_heads, group, length, dim = queries.shape
    out = torch.empty_like(queries)
    every = mask.repeat(group, 1)
    for head in range(kv_heads):
        together = queries[head].reshape(group * length, dim)
        found = capped_attention(
            together, keys[head], values[head], every, scale=scale, softcap=softcap
        )
        out[head] = found.view(group, length, dim)
    return out
