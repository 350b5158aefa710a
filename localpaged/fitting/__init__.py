"""Whether a model fits where it is computed: number formats, KV pool, memory, nearest settings."""
