"""Triton kernel of the gated activations: a program has a stretch of one row."""

import triton
import triton.language as tl


@triton.jit
def open_gate(g, GATE: tl.constexpr):
    if GATE == "silu":
        opened = g * tl.sigmoid(g)
    elif GATE == "gelu":
        opened = 0.5 * g * (1.0 + tl.erf(g * 0.7071067811865476))
    else:
        # 1 + tanh(x) is 2 · sigmoid(2x), whatever the size
        steep = 2.0 * 0.7978845608028654 * (g + 0.044715 * g * g * g)
        # behind that nothing is left, and the exponential of more is no number
        opened = tl.where(steep < -80.0, 0.0, g * tl.sigmoid(tl.maximum(steep, -80.0)))
    return opened


@triton.jit
def gated(
    out_ptr, gate_up_ptr, width, row_stride,
    GATE: tl.constexpr, STRETCH: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    places = tl.program_id(1) * STRETCH + tl.arange(0, STRETCH)
    mask = places < width
    start = gate_up_ptr + row * row_stride
    raw = tl.load(start + places, mask=mask, other=0.0)
    g = raw.to(tl.float32)
    u = tl.load(start + width + places, mask=mask, other=0.0).to(tl.float32)
    opened = open_gate(g, GATE)
    tl.store(out_ptr + row * width + places, (opened * u).to(raw.dtype), mask=mask)
