"""A step of a decoder, as a job that every thread of a team calls."""

from __future__ import annotations

import numpy as np
from numba import njit

from localpaged_kernels.cpu_step.attention import attend, merge_parts
from localpaged_kernels.cpu_step.compiled import compiled
from localpaged_kernels.cpu_step.matrix import multiply
from localpaged_kernels.cpu_step.memory import i64
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
from localpaged_kernels.cpu_step.vectors import gate

LAYERS, HEAD, END = range(3)
"""Kinds of jobs: all layers, the head, and no more jobs."""

QKV, O, GATE_UP, DOWN = range(4)  # noqa: E741
Q_NORM, K_NORM, KV, KV_SCALES = 12, 13, 14, 15
LAYER_SIZE = 16
"""Addresses that belong to a layer: weights, scales and biases of four matrices, then these."""

_ADDRESSES = (
    "layer_addresses", "hidden", "normed", "rounded", "scales", "sums", "qkv", "attended", "wide",
    "positions", "slots", "cos", "sin", "tables", "members", "units", "first_parts", "num_parts",
    "parts", "part_states", "scratch", "head_weights", "head_scales", "head_biases", "logits",
)  # fmt: skip
_SIZES = (
    "kind", "rows", "layers", "width", "heads", "kv_heads", "head_dim", "inner", "turn_block",
    "window", "kv_kind", "kv_item_bytes", "num_units", "scratch_bytes", "outputs", "qkv_outputs",
    "o_outputs", "gate_up_outputs",
)  # fmt: skip
JOB = np.dtype(
    [(name, np.int64) for name in (*_ADDRESSES, *_SIZES)]
    + [("eps", np.float32), ("softmax_scale", np.float32)]
)
"""What a step is about; addresses first. One of it is written by whoever has the team."""


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
        _work(jobs[0], sync, threads, thread)
        if thread == 0:
            return


@njit(nogil=True)
def _work(job, sync, threads, thread):
    if job.kind == LAYERS:
        meet(sync, threads)
        for layer in range(job.layers):
            _layer(job, sync, threads, thread, job.layer_addresses + 8 * LAYER_SIZE * layer)
    elif job.kind == HEAD:
        for row in range(thread, job.rows, threads):
            _norm_and_round(job, row)
        meet(sync, threads)
        multiply(
            sync, threads, job.rounded, job.scales, job.sums, job.rows, job.width,
            job.head_weights, job.head_scales, job.head_biases, job.logits, job.outputs,
        )  # fmt: skip
    meet(sync, threads)


@njit(nogil=True)
def _layer(job, sync, threads, thread, layer):
    scratch = job.scratch + thread * job.scratch_bytes
    for row in range(thread, job.rows, threads):
        _norm_and_round(job, row)
    meet(sync, threads)
    _project(job, sync, threads, layer, QKV, job.width, job.qkv, job.qkv_outputs)
    meet(sync, threads)
    for row in range(thread, job.rows, threads):
        _write_kv(job, row, layer)
    meet(sync, threads)
    kv, kv_scales = number_at(layer, KV), number_at(layer, KV_SCALES)
    unit = claim(sync, 1)
    while unit < job.num_units:
        attend(job, unit, kv, kv_scales, scratch)
        unit = claim(sync, 1)
    meet(sync, threads)
    for row in range(thread, job.rows, threads):
        if number_at(job.num_parts, row):
            for head in range(job.heads):
                merge_parts(job, row, head, scratch)
        width = job.heads * job.head_dim
        _round(job, row, job.attended + 4 * row * width, width)
    meet(sync, threads)
    _project(job, sync, threads, layer, O, job.heads * job.head_dim, job.wide, job.o_outputs)
    meet(sync, threads)
    for row in range(thread, job.rows, threads):
        add_rows(job.hidden + 4 * row * job.width, job.wide + 4 * row * job.o_outputs, job.width)
        _norm_and_round(job, row)
    meet(sync, threads)
    _project(job, sync, threads, layer, GATE_UP, job.width, job.wide, job.gate_up_outputs)
    meet(sync, threads)
    for row in range(thread, job.rows, threads):
        place = job.wide + 4 * row * job.gate_up_outputs
        gate(place, job.inner)
        turn_row(place, job.inner, job.turn_block)
        _round(job, row, place, job.inner)
    meet(sync, threads)
    _project(job, sync, threads, layer, DOWN, job.inner, job.wide, job.o_outputs)
    meet(sync, threads)
    for row in range(thread, job.rows, threads):
        add_rows(job.hidden + 4 * row * job.width, job.wide + 4 * row * job.o_outputs, job.width)


@njit(nogil=True)
def _norm_and_round(job, row):
    place = job.normed + 4 * row * job.width
    normalise(job.hidden + 4 * row * job.width, job.width, 0, job.eps, place)
    _round(job, row, place, job.width)


@njit(nogil=True)
def _round(job, row, place, width):
    round_row(place, width, job.rounded + row * width, job.scales, job.sums, row)


@njit(nogil=True)
def _project(job, sync, threads, layer, matrix, inputs, out, outputs):
    fields = i64(layer + 8 * 3 * matrix, 3)
    multiply(
        sync, threads, job.rounded, job.scales, job.sums, job.rows, inputs,
        fields[0], fields[1], fields[2], out, outputs,
    )  # fmt: skip


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
