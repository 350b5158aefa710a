"""Root mean square norm, with the residual added on the way."""
