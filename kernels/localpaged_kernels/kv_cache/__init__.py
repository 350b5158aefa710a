"""Write K and V rows into slots of the cache; copy whole blocks."""

from localpaged_kernels.kv_cache.reference import copy_blocks, write_kv

__all__ = ["copy_blocks", "write_kv"]
