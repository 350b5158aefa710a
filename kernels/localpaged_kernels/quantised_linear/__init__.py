"""Projections whose weights stay in 8 or 4 bits, and rows of such matrices as numbers."""
