"""What paged attention means, one query at a time, in float32. Slow and obvious."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from localpaged_kernels.paged_attention.batch import AttentionBatch


def paged_attention(
    queries: torch.Tensor,
    kv: torch.Tensor,
    batch: AttentionBatch,
    *,
    scale: float,
    window: int | None = None,
    kv_scales: torch.Tensor | None = None,
    softcap: float | None = None,
    sinks: torch.Tensor | None = None,
) -> torch.Tensor:
    """Return softmax(scale · q kᵀ) v for each query over its own sequence.

    queries [queries, heads, head_dim]; kv [blocks, block_size, 2, kv_heads, head_dim]; the result
    is like queries. Query i of a row sees the tokens up to its own, with a `window` only the last
    `window` of them. Heads are grouped: head h reads KV head h // (heads / kv_heads).
    An int8 or fp8 kv comes with `kv_scales` [blocks, block_size, 2, kv_heads]: as a row's scale is
    one number, K's multiplies the score and V's the weight, and the dot products see what is stored
    alone. A `softcap` keeps each scaled score s between its two signs: cap · tanh(s / cap).
    `sinks` [heads] are scores that take their share of the weights and have no V.
    """
    out = queries.new_empty(queries.shape)
    group = queries.shape[1] // kv.shape[3]
    first = 0
    for table, query_len, seq_len in zip(
        batch.tables, batch.query_lens, batch.seq_lens, strict=True
    ):
        keys, values = kv[table].flatten(0, 1)[:seq_len].float().permute(1, 2, 0, 3)
        k_scales, v_scales = (
            keys.new_ones(2, *keys.shape[:-1])
            if kv_scales is None
            else kv_scales[table].flatten(0, 1)[:seq_len].permute(1, 2, 0)
        )
        for i in range(query_len):
            seen = seq_len - query_len + i + 1
            start = 0 if window is None else max(0, seen - window)
            for head in range(queries.shape[1]):
                k, v = keys[head // group, start:seen], values[head // group, start:seen]
                scores = k @ queries[first + i, head].float() * k_scales[head // group, start:seen]
                scores *= scale
                if softcap is not None:
                    scores = softcap * (scores / softcap).tanh()
                if sinks is not None:
                    scores = torch.cat((scores, sinks[head : head + 1].float()))
                weights = scores.softmax(0)[: seen - start] * v_scales[head // group, start:seen]
                out[first + i, head] = (weights @ v).to(out.dtype)
        first += query_len
    return out
