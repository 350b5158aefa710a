"""Draw tokens from logits: temperature, top-k, top-p, min-p, and one number that decides."""
