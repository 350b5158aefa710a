"""Attention over a paged KV cache for a mixed batch of decodes and prompt chunks."""

from localpaged_kernels.paged_attention.batch import AttentionBatch
from localpaged_kernels.paged_attention.dispatch import paged_attention

__all__ = ["AttentionBatch", "paged_attention"]
