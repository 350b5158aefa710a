"""A decoder's whole step on a processor, in 8 bits: compiled by numba, run by a team of threads.

Nothing here is imported by the package's beginning: numba takes a quarter of a second.
"""
