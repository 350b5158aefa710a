"""Block copies on a GPU: all layers and all blocks of a step in one launch, or in two.

Blocks are moved as whole words, whatever they hold. What leaves the pool for host memory is
gathered into one piece first, what comes back is scattered from one: a piece crosses the bus in one
copy.
"""

from __future__ import annotations

import torch

from localpaged_kernels.launch import Launch

STRETCH = 1024
"""Words that one program moves: 8 KiB of 64-bit ones."""


def copy_blocks(
    kv: torch.Tensor, sources: torch.Tensor, targets: torch.Tensor, *, is_apart: bool = False
) -> None:
    """Do what `reference.copy_blocks` does; same arguments, same result.

    Programs run in any order, so what is read is put aside first. Where no block is both read and
    written (`is_apart`) that is not needed.
    """
    if is_apart:
        plan(kv, kv, source_ids=sources, target_ids=targets).run()
    else:
        scatter_blocks(kv, targets, gather_blocks(kv, sources))


def gather_blocks(kv: torch.Tensor, sources: torch.Tensor) -> torch.Tensor:
    """Return blocks of kv [layers, blocks, ...] as one piece [layers, copies, ...]."""
    piece = kv.new_empty(kv.shape[0], len(sources), *kv.shape[2:])
    plan(piece, kv, source_ids=sources).run()
    return piece


def scatter_blocks(kv: torch.Tensor, targets: torch.Tensor, piece: torch.Tensor) -> None:
    """Write a piece [layers, copies, ...] into blocks of kv, changed in place; no target twice."""
    plan(kv, piece, target_ids=targets).run()


def plan(
    target: torch.Tensor,
    source: torch.Tensor,
    *,
    target_ids: torch.Tensor | None = None,
    source_ids: torch.Tensor | None = None,
) -> Launch:
    """Return the launch that copies blocks, the first ones where a side has no ids."""
    from localpaged_kernels.kv_cache import triton_kernel

    ids = source_ids if source_ids is not None else target_ids
    assert ids is not None
    into, out_of = _words(target), _words(source)
    return Launch(
        triton_kernel.move_blocks,
        (len(ids), into.shape[0], -(-into.shape[2] // STRETCH)),
        {
            "target_ptr": into,
            "source_ptr": out_of,
            "target_ids_ptr": target_ids,
            "source_ids_ptr": source_ids,
            "num_words": into.shape[2],
            "target_layer_stride": into.stride(0),
            "target_block_stride": into.stride(1),
            "source_layer_stride": out_of.stride(0),
            "source_block_stride": out_of.stride(1),
        },
        {
            "STRETCH": STRETCH,
            "HAS_TARGET_IDS": target_ids is not None,
            "HAS_SOURCE_IDS": source_ids is not None,
        },
    )


def _words(kv: torch.Tensor) -> torch.Tensor:
    """Return blocks [layers, blocks, words] in the widest words that a block is made of."""
    flat = kv.view(torch.uint8) if kv.dtype.itemsize == 1 else kv
    flat = flat.view(kv.shape[0], kv.shape[1], -1).view(torch.uint8)
    for word in (torch.int64, torch.int32):
        if flat.shape[2] % word.itemsize == 0:
            return flat.view(word)
    return flat
