"""A step of a decoder, as a job that every thread of a team calls."""

from __future__ import annotations

import numpy as np
from numba import njit

from localpaged_kernels.cpu_step.attention import attend, merge_parts
from localpaged_kernels.cpu_step.compiled import compiled
from localpaged_kernels.cpu_step.group_matrix import multiply_groups, round_groups
from localpaged_kernels.cpu_step.llvm_code import LANES
from localpaged_kernels.cpu_step.matrix import multiply
from localpaged_kernels.cpu_step.memory import i64
from localpaged_kernels.cpu_step.row_vectors import cap, gate_gelu, gate_silu
from localpaged_kernels.cpu_step.rows import (
    add_rows,
    normalise,
    number_at,
    rotate,
    round_row,
    scale_row,
    store_head,
    turn_row,
)
from localpaged_kernels.cpu_step.team import call_team, claim, meet, wait_for_job

LAYERS, HEAD, END = range(3)
"""Kinds of jobs: all layers, the head, and no more jobs."""

QKV, O, GATE_UP, DOWN = range(4)  # noqa: E741
Q_NORM, K_NORM, KV, KV_SCALES, VIEW = range(12, 17)
ATTN_NORM, ATTN_POST_NORM, MLP_NORM, MLP_POST_NORM = range(17, 21)
LAYER_SIZE = 21
"""What belongs to a layer: addresses of weights, scales and biases of four matrices, then these.

A matrix in groups has the number of its bits where others have the address of their scales.

VIEW is which of the jobs the layer does. Norms that have no weights, or none left, are 0.
"""

VIEWS = 4
"""Jobs of a step: layers of a kind have angles, a window and units of work of their own."""

_ADDRESSES = (
    "layer_addresses", "hidden", "normed", "rounded", "scales", "sums", "qkv", "attended", "wide",
    "positions", "slots", "cos", "sin", "tables", "members", "units", "first_parts", "num_parts",
    "parts", "part_states", "scratch", "norm", "head_weights", "head_scales", "head_biases",
    "logits",
)  # fmt: skip
_SIZES = (
    "kind", "rows", "layers", "width", "heads", "kv_heads", "head_dim", "inner", "turn_block",
    "window", "kv_kind", "kv_item_bytes", "num_units", "scratch_bytes", "outputs", "qkv_outputs",
    "o_outputs", "gate_up_outputs", "is_gelu", "read_block", "has_groups",
)  # fmt: skip
JOB = np.dtype(
    [(name, np.int64) for name in (*_ADDRESSES, *_SIZES)]
    + [(name, np.float32) for name in ("eps", "softmax_scale", "score_cap", "logit_cap")]
)
"""What a step is about; addresses first. VIEWS of it are written by whoever has the team.

What a projection reads of the hidden states is turned by `read_block`s, unless that is 0: then they
are turned themselves. `cos` and caps are 0 where nothing is rotated, or capped. With `has_groups`
matrices and rows are in groups of 32 (`group_matrix`), rows in `rounded` alone; nothing is turned.
"""


@compiled
def work(jobs, sync, pipes, threads, thread):
    """Thread 0: do the job that is written down, with the team's help; returns when all are done.

    Other threads: be one of the team until there are no more jobs.
    """
    done = 0
    while True:
        if thread == 0:
            call_team(sync, pipes, threads)
        else:
            done = wait_for_job(sync, pipes[thread, 0], thread, done)
        if jobs[0].kind == END:
            return
        _work(jobs, sync, threads, thread)
        if thread == 0:
            return


@njit(nogil=True)
def _work(jobs, sync, threads, thread):
    job = jobs[0]
    if job.kind == LAYERS:
        meet(sync, threads)
        for n in range(job.layers):
            layer = job.layer_addresses + 8 * LAYER_SIZE * n
            _layer(jobs[number_at(layer, VIEW)], sync, threads, thread, layer)
    elif job.kind == HEAD:
        for row in _own_rows(job, threads, thread):
            _norm_and_round(job, row, job.norm)
        meet(sync, threads)
        _multiply(
            job, sync, threads, job.width,
            job.head_weights, job.head_scales, job.head_biases, job.logits, job.outputs,
        )  # fmt: skip
        if job.logit_cap > 0:
            meet(sync, threads)
            _cap_logits(job, threads, thread)
    meet(sync, threads)


@njit(nogil=True)
def _layer(job, sync, threads, thread, layer):
    scratch = job.scratch + thread * job.scratch_bytes
    for row in _own_rows(job, threads, thread):
        _norm_and_round(job, row, number_at(layer, ATTN_NORM))
    meet(sync, threads)
    _project(job, sync, threads, layer, QKV, job.width, job.qkv, job.qkv_outputs)
    meet(sync, threads)
    for row in _own_rows(job, threads, thread):
        _write_kv(job, row, layer)
    meet(sync, threads)
    kv, kv_scales = number_at(layer, KV), number_at(layer, KV_SCALES)
    unit = claim(sync, 1)
    while unit < job.num_units:
        attend(job, unit, kv, kv_scales, scratch)
        unit = claim(sync, 1)
    meet(sync, threads)
    for row in _own_rows(job, threads, thread):
        if number_at(job.num_parts, row):
            for head in range(job.heads):
                merge_parts(job, row, head, scratch)
        width = job.heads * job.head_dim
        _round(job, row, job.attended + 4 * row * width, width)
    meet(sync, threads)
    _project(job, sync, threads, layer, O, job.heads * job.head_dim, job.wide, job.o_outputs)
    meet(sync, threads)
    for row in _own_rows(job, threads, thread):
        _add(job, row, number_at(layer, ATTN_POST_NORM))
        _norm_and_round(job, row, number_at(layer, MLP_NORM))
    meet(sync, threads)
    _project(job, sync, threads, layer, GATE_UP, job.width, job.wide, job.gate_up_outputs)
    meet(sync, threads)
    for row in _own_rows(job, threads, thread):
        place = job.wide + 4 * row * job.gate_up_outputs
        if job.is_gelu:
            gate_gelu(place, job.inner)
        else:
            gate_silu(place, job.inner)
        if job.turn_block:
            turn_row(place, job.inner, job.turn_block)
        _round(job, row, place, job.inner)
    meet(sync, threads)
    _project(job, sync, threads, layer, DOWN, job.inner, job.wide, job.o_outputs)
    meet(sync, threads)
    for row in _own_rows(job, threads, thread):
        _add(job, row, number_at(layer, MLP_POST_NORM))


@njit(nogil=True)
def _add(job, row, norm):
    """Add what a projection gave to a token's hidden state."""
    added = job.wide + 4 * row * job.o_outputs
    if norm:
        normalise(added, job.width, norm, job.eps, added)
    add_rows(job.hidden + 4 * row * job.width, added, job.width)


@njit(nogil=True)
def _norm_and_round(job, row, norm):
    place = job.normed + 4 * row * job.width
    normalise(job.hidden + 4 * row * job.width, job.width, norm, job.eps, place)
    if job.read_block:
        turn_row(place, job.width, job.read_block)
    _round(job, row, place, job.width)


@njit(nogil=True)
def _cap_logits(job, threads, thread):
    """Cap this thread's part of each row of logits."""
    vectors = job.outputs // LANES
    first, end = vectors * thread // threads, vectors * (thread + 1) // threads
    for row in range(job.rows):
        if end > first:
            place = job.logits + 4 * (row * job.outputs + LANES * first)
            cap(place, end - first, job.logit_cap)


@njit(nogil=True)
def _round(job, row, place, width):
    if job.has_groups:
        round_groups(place, width, job.rounded, job.rows, row)
    else:
        round_row(place, width, job.rounded + row * width, job.scales, job.sums, row)


@njit(nogil=True)
def _project(job, sync, threads, layer, matrix, inputs, out, outputs):
    fields = i64(layer + 8 * 3 * matrix, 3)
    _multiply(job, sync, threads, inputs, fields[0], fields[1], fields[2], out, outputs)


@njit(nogil=True)
def _multiply(job, sync, threads, inputs, weights, scales, biases, out, outputs):
    if job.has_groups:
        multiply_groups(
            sync, threads, job.rounded, job.rows, inputs, scales, weights, biases, out, outputs
        )
    else:
        multiply(
            sync, threads, job.rounded, job.scales, job.sums, job.rows, inputs,
            weights, scales, biases, out, outputs,
        )  # fmt: skip


@njit(nogil=True)
def _own_rows(job, threads, thread):
    """Return the rows of a thread: neighbours, as in groups they are written side by side."""
    return range(job.rows * thread // threads, job.rows * (thread + 1) // threads)


@njit(nogil=True)
def _write_kv(job, row, layer):
    """Normalise and rotate a token's queries and keys, and write its K and V into its slot."""
    dim, kv_heads = job.head_dim, job.kv_heads
    place = job.qkv + 4 * row * job.qkv_outputs
    turned = job.heads + kv_heads
    angle = 4 * dim * number_at(job.positions, row)
    q_norm, k_norm = number_at(layer, Q_NORM), number_at(layer, K_NORM)
    for head in range(turned):
        at = place + 4 * dim * head
        weight = q_norm if head < job.heads else k_norm
        if weight:
            normalise(at, dim, weight, job.eps, at)
        if job.cos:
            rotate(at, dim // 2, job.cos + angle, job.sin + angle)
        if head < job.heads:
            scale_row(at, dim, job.softmax_scale)
    first = number_at(job.slots, row) * 2 * kv_heads
    for head in range(2 * kv_heads):
        store_head(
            place + 4 * dim * (job.heads + head),
            dim,
            job.kv_kind,
            number_at(layer, KV) + (first + head) * dim * job.kv_item_bytes,
            number_at(layer, KV_SCALES) + 4 * (first + head),
        )
