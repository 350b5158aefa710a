"""Normalise and rotate a step's queries and keys; write K and V into their slots."""
