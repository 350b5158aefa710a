"""The paged engine: block pool, prefix tree, scheduler, native decoder, one thread."""
