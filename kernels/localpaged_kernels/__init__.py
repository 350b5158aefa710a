"""Paged-attention operators in plain torch; knows nothing of the application.

K and V of one layer lie in one tensor `kv` of shape [blocks, block_size, 2, kv_heads, head_dim]:
a block is contiguous, so gathering a sequence moves whole kilobytes, and the tokens of
neighbouring blocks follow each other at one stride.
"""

from localpaged_kernels.errors import KernelError, UnsupportedShape
from localpaged_kernels.kv_cache import copy_blocks, write_kv
from localpaged_kernels.paged_attention import AttentionBatch, paged_attention

__all__ = [
    "AttentionBatch",
    "KernelError",
    "UnsupportedShape",
    "copy_blocks",
    "paged_attention",
    "write_kv",
]
