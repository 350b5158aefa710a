"""Draws on a GPU: one launch, one program a row, and tokens that stay where they are."""

from __future__ import annotations

import torch

from localpaged_kernels.launch import Launch, power_of_two

BLOCK = 2048
"""Logits that a program looks at at once: four a thread, so that no sum is spilled."""


def sample(
    logits: torch.Tensor,
    *,
    temperatures: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    numbers: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Do what `reference.sample` does; same arguments, same result, without sorting."""
    tokens = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    sound = torch.empty(len(logits), dtype=torch.int8, device=logits.device)
    plan(
        tokens,
        sound,
        logits,
        temperatures=temperatures,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        numbers=numbers,
    ).run()
    return tokens, sound.bool()


def plan(
    tokens: torch.Tensor,
    sound: torch.Tensor,
    logits: torch.Tensor,
    *,
    temperatures: torch.Tensor,
    top_k: torch.Tensor,
    top_p: torch.Tensor,
    min_p: torch.Tensor,
    numbers: torch.Tensor,
) -> Launch:
    """Return the launch that fills `tokens` [rows] int64 and `sound` [rows] int8."""
    from localpaged_kernels.sampling import triton_kernel

    rows, vocab = logits.shape
    block = min(power_of_two(vocab), BLOCK)
    return Launch(
        triton_kernel.sample,
        (rows,),
        {
            "tokens_ptr": tokens,
            "sound_ptr": sound,
            "logits_ptr": logits,
            "temperatures_ptr": temperatures,
            "top_k_ptr": top_k,
            "top_p_ptr": top_p,
            "min_p_ptr": min_p,
            "numbers_ptr": numbers,
            "values_ptr": logits.new_empty(rows, block),
            "ids_ptr": tokens.new_empty(rows, block, dtype=torch.int32),
            "vocab": vocab,
            "row_stride": logits.stride(0),
        },
        {"BLOCK": block},
        num_warps=max(min(block // 128, 16), 1),
    )
