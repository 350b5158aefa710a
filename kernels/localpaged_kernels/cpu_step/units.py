"""Cuts a step's attention into units of work: some tokens and one or all pieces of their keys."""

from __future__ import annotations

import numpy as np
from numba import njit

from localpaged_kernels.cpu_step.attention import PIECE, tile_tokens
from localpaged_kernels.cpu_step.compiled import compiled
from localpaged_kernels.cpu_step.llvm_code import LANES

BLOCKS = PIECE // LANES
WHOLE = -1


@compiled
def plan_units(query_lens, seq_lens, tables, table_starts, group, window, threads):
    """Return units [units, 4], members, first_parts and num_parts [tokens], and all parts' number.

    Sequence i has its block table at tables[table_starts[i]:] and seq_lens[i] tokens, the last
    query_lens[i] of which are asked for. A unit is its first place in `members`, which has tokens,
    how many there are, its table's start, and the piece it reads, or WHOLE. Tokens of several
    sequences are one unit where a whole piece of their keys is the same blocks.
    """
    count = len(query_lens)
    num_tokens = query_lens.sum()
    at_once = tile_tokens(group, num_tokens, threads)
    most = num_tokens
    for i in range(count):
        if query_lens[i] == 1:
            most += seq_lens[i] // PIECE + 1
    units = np.empty((most, 4), np.int64)
    members = np.empty(most, np.int64)
    first_parts = np.zeros(num_tokens, np.int64)
    num_parts = np.zeros(num_tokens, np.int64)
    num_units, num_members, all_parts, widest = 0, 0, 0, 0
    firsts = np.empty(count, np.int64)
    token = 0
    for i in range(count):
        firsts[i] = token
        start = max(0, seq_lens[i] - window) // PIECE if window > 0 else 0
        pieces = (seq_lens[i] - 1) // PIECE + 1 - start
        if query_lens[i] == 1 and pieces > 1:
            first_parts[token], num_parts[token] = all_parts, pieces
            all_parts += pieces
            widest = max(widest, start + pieces)
        else:
            for first in range(token, token + query_lens[i], at_once):
                size = min(at_once, token + query_lens[i] - first)
                units[num_units] = (num_members, size, table_starts[i], WHOLE)
                num_units += 1
                for k in range(size):
                    members[num_members + k] = first + k
                num_members += size
        token += query_lens[i]
    is_taken = np.empty(count, np.bool_)
    for piece in range(widest):
        for i in range(count):
            start = max(0, seq_lens[i] - window) // PIECE if window > 0 else 0
            is_taken[i] = not (
                num_parts[firsts[i]]
                and query_lens[i] == 1
                and start <= piece < start + num_parts[firsts[i]]
            )
        for i in range(count):
            if is_taken[i]:
                continue
            members[num_members] = firsts[i]
            size = 1
            if seq_lens[i] >= (piece + 1) * PIECE:
                own = tables[table_starts[i] + piece * BLOCKS :][:BLOCKS]
                for k in range(i + 1, count):
                    if size == at_once:
                        break
                    if is_taken[k] or seq_lens[k] < (piece + 1) * PIECE:
                        continue
                    other = tables[table_starts[k] + piece * BLOCKS :][:BLOCKS]
                    if _are_same(own, other):
                        is_taken[k] = True
                        members[num_members + size] = firsts[k]
                        size += 1
            units[num_units] = (num_members, size, table_starts[i], piece)
            num_units += 1
            num_members += size
    return units[:num_units], members[:num_members], first_parts, num_parts, all_parts


@njit(nogil=True)
def _are_same(a, b):
    for i in range(BLOCKS):
        if a[i] != b[i]:
            return False
    return True
