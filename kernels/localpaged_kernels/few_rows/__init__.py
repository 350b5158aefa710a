"""Projections of a few rows by a dense matrix, with the norm before them or the gate behind."""
