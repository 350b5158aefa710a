"""Attention through block tables: some queries over the keys of a sequence, piece by piece.

Keys are read in pieces of PIECE tokens, which are put together in order. So what a query gets
depends on its own sequence alone, whoever reads the same piece with it, and on whichever thread.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from localpaged_kernels.cpu_step.llvm_code import AVX512_VNNI, LANES, instruction
from localpaged_kernels.cpu_step.memory import f32, i64
from localpaged_kernels.cpu_step.row_vectors import cap, exponentials
from localpaged_kernels.cpu_step.rows import FAST, copy_row, number_at
from localpaged_kernels.cpu_step.vectors import make_scores, make_weigh, widen

PIECE = 128
"""Keys of which the softmax is taken at once."""

TILE_ROWS = 128
"""Rows, a query's head each, for which a piece is read at once, at most."""

FEW_ROWS = 32
"""So many rows are cheap enough to read all heads of a block before the next, as they lie."""

ROWS = 8 if instruction() == AVX512_VNNI else 3
"""Rows of one call of the loops in registers, of which it takes two for a row."""

_scores, _weighed = make_scores(ROWS), make_weigh(ROWS)


def scratch_bytes(group: int, kv_heads: int, head_dim: int) -> int:
    """Return the memory that a thread needs for a tile."""
    rows = max(TILE_ROWS, group) * kv_heads
    return 4 * (rows * (3 * head_dim + PIECE + 4) + LANES * head_dim)


@njit(nogil=True)
def tile_tokens(group, tokens, threads):
    """Return how many tokens' queries a tile has, so that each thread gets several of them."""
    return min(max(tokens // (4 * threads), FEW_ROWS // group, 1), max(1, TILE_ROWS // group))


@njit(nogil=True)
def attend(job, unit, kv, kv_scales, scratch):
    """Attend with the queries of a unit of work, to all KV heads block by block as they lie there.

    A unit that has all pieces writes what its tokens get; one that is a single piece of several
    writes a part, to be put together by `merge_parts`.
    """
    members = i64(job.members + 8 * job_unit(job, unit, 0), job_unit(job, unit, 1))
    table = job.tables + 8 * job_unit(job, unit, 2)
    only = job_unit(job, unit, 3)
    dim, group = job.head_dim, job.heads // job.kv_heads
    head_rows = len(members) * group
    rows = head_rows * job.kv_heads
    queries = scratch
    scores = queries + 4 * rows * dim
    piece_sums = scores + 4 * rows * PIECE
    sums = piece_sums + 4 * rows * dim
    wide = sums + 4 * rows * dim
    states = wide + 4 * LANES * dim
    piece_states = states + 8 * rows
    seen = i64(job.positions, 1 << 40)
    first, end = 1 << 60, 0
    for m in range(len(members)):
        token = members[m]
        for kv_head in range(job.kv_heads):
            place = job.qkv + 4 * (token * job.qkv_outputs + kv_head * group * dim)
            row = kv_head * head_rows + m * group
            copy_row(place, group * dim, queries + 4 * row * dim)
        end = max(end, seen[token] + 1)
        first = min(first, _first_seen(job, seen[token] + 1))
    f32(sums, rows * dim)[:] = np.float32(0)
    for row in range(rows):
        _forget(states + 8 * row)
    pieces = (first // PIECE, (end - 1) // PIECE + 1) if only < 0 else (only, only + 1)
    for piece in range(pieces[0], pieces[1]):
        start = max(first // LANES * LANES, piece * PIECE)
        stop = min(end, (piece + 1) * PIECE)
        blocks = (stop - start + LANES - 1) // LANES
        places = table + 8 * (start // LANES)
        _score(job, queries, head_rows, kv, kv_scales, places, blocks, scores, wide)
        for row in range(rows):
            position = seen[members[row % head_rows // group]] + 1
            lowest = max(_first_seen(job, position) - start, 0)
            highest = min(position - start, blocks * LANES)
            state = piece_states + 8 * row
            if job.score_cap > 0:
                cap(scores + 4 * row * PIECE, blocks, job.score_cap)
            _softmax(scores + 4 * row * PIECE, lowest, highest, blocks * LANES, state)
        f32(piece_sums, rows * dim)[:] = np.float32(0)
        _weigh(job, scores, head_rows, kv, kv_scales, places, blocks, piece_sums, wide)
        if only < 0:
            for row in range(rows):
                own, other = sums + 4 * row * dim, piece_sums + 4 * row * dim
                _merge(own, states + 8 * row, other, piece_states + 8 * row, dim)
    for row in range(rows):
        token = members[row % head_rows // group]
        head = row // head_rows * group + row % group
        if only < 0:
            place = job.attended + 4 * dim * (token * job.heads + head)
            _finish(sums + 4 * row * dim, states + 8 * row, dim, place)
        else:
            before = _first_seen(job, seen[token] + 1) // PIECE
            part = i64(job.first_parts, token + 1)[token] + only - before
            index = part * job.heads + head
            copy_row(piece_sums + 4 * row * dim, dim, job.parts + 4 * dim * index)
            copy_row(piece_states + 8 * row, 2, job.part_states + 8 * index)


@njit(nogil=True)
def merge_parts(job, token, head, scratch):
    """Put the parts of one head of a token together."""
    dim = job.head_dim
    count = i64(job.num_parts, token + 1)[token]
    first = i64(job.first_parts, token + 1)[token]
    f32(scratch, dim)[:] = np.float32(0)
    state = scratch + 4 * dim
    _forget(state)
    for part in range(first, first + count):
        index = part * job.heads + head
        _merge(scratch, state, job.parts + 4 * dim * index, job.part_states + 8 * index, dim)
    _finish(scratch, state, dim, job.attended + 4 * dim * (token * job.heads + head))


@njit(nogil=True, inline="always")
def job_unit(job, unit, field):
    """Return a number of a unit: its first member, how many, its table's place, its piece or -1."""
    return i64(job.units, 1 << 30)[4 * unit + field]


@njit(nogil=True, inline="always")
def _first_seen(job, position):
    return max(0, position - job.window) if job.window > 0 else 0


@njit(nogil=True)
def _softmax(scores, lowest, highest, width, state):
    """Make weights of scores [lowest, highest), and zeros of the others; tell maximum and sum."""
    row = f32(scores, width)
    if highest <= lowest:
        row[:] = np.float32(0)
        f32(state, 2)[0], f32(state, 2)[1] = np.float32(-np.inf), np.float32(0)
        return
    row[:lowest] = np.float32(-np.inf)
    row[highest:] = np.float32(-np.inf)
    exponentials(scores, width // LANES, state)


@njit(nogil=True, fastmath=FAST)
def _merge(sums, state, others, other_state, dim):
    """Add weighted sums to others. A state is the maximum of scores and their weights' total."""
    own, other = f32(state, 2), f32(other_state, 2)
    if other[1] == 0:
        return
    most = max(own[0], other[0])
    a = np.float32(math.exp(own[0] - most)) if own[1] != 0 else np.float32(0)
    b = np.float32(math.exp(other[0] - most))
    own[0], own[1] = most, own[1] * a + other[1] * b
    row, added = f32(sums, dim), f32(others, dim)
    for i in range(dim):
        row[i] = row[i] * a + added[i] * b


@njit(nogil=True)
def _forget(state):
    f32(state, 2)[0], f32(state, 2)[1] = np.float32(-np.inf), np.float32(0)


@njit(nogil=True, fastmath=FAST)
def _finish(sums, state, dim, to):
    """Write weighted sums, divided by their weights' total."""
    row, out = f32(sums, dim), f32(to, dim)
    inverse = np.float32(1) / f32(state, 2)[1]
    for i in range(dim):
        out[i] = row[i] * inverse


@njit(nogil=True)
def _score(job, queries, rows, kv, kv_scales, table, blocks, scores, wide):
    """Multiply `rows` queries of each KV head with all keys of the blocks."""
    vectors = job.head_dim // LANES
    for n in range(blocks * job.kv_heads):
        b, kv_head = _nth(n, rows, blocks, job.kv_heads)
        _widen(job, kv, kv_scales, table, b, blocks, kv_head, 1, wide)
        for r in range(0, rows, ROWS):
            row = kv_head * rows + r
            q, out = queries + 4 * row * job.head_dim, scores + 4 * (row * PIECE + b * LANES)
            _scores(min(ROWS, rows - r), q, wide, vectors, out, 4 * PIECE)


@njit(nogil=True)
def _weigh(job, weights, rows, kv, kv_scales, table, blocks, sums, wide):
    """Add all values of the blocks, weighted, to `rows` sums of each KV head."""
    vectors = job.head_dim // LANES
    for n in range(blocks * job.kv_heads):
        b, kv_head = _nth(n, rows, blocks, job.kv_heads)
        _widen(job, kv, kv_scales, table, b, blocks, kv_head, 0, wide)
        for r in range(0, rows, ROWS):
            row = kv_head * rows + r
            p, out = weights + 4 * (row * PIECE + b * LANES), sums + 4 * row * job.head_dim
            _weighed(min(ROWS, rows - r), p, 4 * PIECE, wide, vectors, out)


@njit(nogil=True, inline="always")
def _nth(n, rows, blocks, kv_heads):
    """Return the n-th block and head: few rows wait for memory, sums of many for the cache."""
    if rows <= FEW_ROWS:
        return n // kv_heads, n % kv_heads
    return n % blocks, n // blocks


@njit(nogil=True)
def _widen(job, kv, kv_scales, table, b, blocks, kv_head, is_key, wide):
    """Write K [dim][16] or V [16][dim] of one head in block `b` as float32."""
    block, next_block = number_at(table, b), number_at(table, min(b + 1, blocks - 1))
    heads, dim = 2 * job.kv_heads, job.head_dim
    head = kv_head if is_key else job.kv_heads + kv_head
    key = heads * dim * job.kv_item_bytes
    stored = kv + block * LANES * key + head * dim * job.kv_item_bytes
    ahead = (next_block - block) * LANES * key
    scales = kv_scales + 4 * (block * LANES * heads + head)
    widen(job.kv_kind, is_key, stored, key, dim // LANES, scales, 4 * heads, ahead, wide)
