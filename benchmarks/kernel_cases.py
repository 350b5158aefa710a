"""Shapes that models have, for which every kernel is compiled ahead of time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kernel_launches import (
    BF16,
    FP8,
    FP16,
    FP32,
    INT8,
    attention,
    cascade,
    copy,
    dequantised,
    few_rows,
    gated,
    norm,
    quantised_linear,
    sample,
    write,
)
from localpaged_kernels.launch import Launch

Case = Callable[[int], tuple[Launch, ...]]
"""Makes the launches for an architecture; their tensors have shapes and no memory."""

_decode = partial(partial, attention)
_chunk = partial(partial, attention, num_queries=512)
_ALL = {"window": 4096, "softcap": 50.0, "has_sinks": True}

CASES: dict[str, Case] = {
    "decode, bf16, 32/8 heads of 128": _decode(heads=32, kv_heads=8, dim=128),
    "decode, bf16, 32/8 of 128, 16 parts": _decode(heads=32, kv_heads=8, dim=128, num_splits=16),
    "decode, bf16, 32/8 of 128, 16 parts, last merges": _decode(
        heads=32, kv_heads=8, dim=128, num_splits=16, is_last_merging=True
    ),
    "decode, bf16, 16/8 of 64, window, cap, sinks": _decode(
        heads=16, kv_heads=8, dim=64, num_splits=4, **_ALL
    ),
    "decode, bf16, 9/3 of 64": _decode(heads=9, kv_heads=3, dim=64),
    "decode, bf16, 32/32 of 80": _decode(heads=32, kv_heads=32, dim=80, num_splits=2),
    "decode, bf16, 32/32 of 96": _decode(heads=32, kv_heads=32, dim=96),
    "decode, fp16, 28/4 of 112": _decode(heads=28, kv_heads=4, dim=112, dtype=FP16),
    "decode, bf16, 8/4 of 256": _decode(heads=8, kv_heads=4, dim=256),
    "decode, bf16, 64/2 of 128, 8 parts": _decode(heads=64, kv_heads=2, dim=128, num_splits=8),
    "decode, bf16 on int8, 32/8 of 128": _decode(
        heads=32, kv_heads=8, dim=128, kv_dtype=INT8, num_splits=8
    ),
    "decode, fp16 on int8, 32/8 of 128": _decode(
        heads=32, kv_heads=8, dim=128, dtype=FP16, kv_dtype=INT8
    ),
    "decode, bf16 on fp8, 32/8 of 128": _decode(
        heads=32, kv_heads=8, dim=128, kv_dtype=FP8, num_splits=8
    ),
    "decode, bf16 on fp8, 14/2 of 64, 8 parts": _decode(
        heads=14, kv_heads=2, dim=64, kv_dtype=FP8, num_splits=8
    ),
    "decode, bf16 on fp8, 8/4 of 256": _decode(heads=8, kv_heads=4, dim=256, kv_dtype=FP8),
    "decode, fp32, 32/8 of 128": _decode(heads=32, kv_heads=8, dim=128, dtype=FP32, num_splits=4),
    "decode, fp32, 8/4 of 256": _decode(heads=8, kv_heads=4, dim=256, dtype=FP32, **_ALL),
    "chunk, bf16, 32/8 of 128": _chunk(heads=32, kv_heads=8, dim=128),
    "chunk, bf16, 32/8 of 128, window, cap, sinks": _chunk(
        heads=32, kv_heads=8, dim=128, num_splits=4, **_ALL
    ),
    "chunk, bf16, 9/3 of 64": _chunk(heads=9, kv_heads=3, dim=64),
    "chunk, fp16, 32/32 of 80": _chunk(heads=32, kv_heads=32, dim=80, dtype=FP16),
    "chunk, bf16, 28/4 of 112": _chunk(heads=28, kv_heads=4, dim=112),
    "chunk, bf16, 28/4 of 112, 2 parts": _chunk(heads=28, kv_heads=4, dim=112, num_splits=2),
    "chunk, bf16, 8/4 of 256": _chunk(heads=8, kv_heads=4, dim=256),
    "chunk, bf16 on int8, 32/8 of 128": _chunk(
        heads=32, kv_heads=8, dim=128, kv_dtype=INT8, num_splits=4, **_ALL
    ),
    "chunk, bf16 on fp8, 32/8 of 128": _chunk(heads=32, kv_heads=8, dim=128, kv_dtype=FP8),
    "chunk, fp16 on fp8, 8/4 of 256": _chunk(
        heads=8, kv_heads=4, dim=256, dtype=FP16, kv_dtype=FP8, **_ALL
    ),
    "chunk, fp32, 32/8 of 128": _chunk(heads=32, kv_heads=8, dim=128, dtype=FP32),
    "chunk, fp32, 8/4 of 256": _chunk(heads=8, kv_heads=4, dim=256, dtype=FP32, **_ALL),
    "cascade, bf16, 32/8 of 128": partial(cascade, heads=32, kv_heads=8, dim=128),
    "cascade, bf16 on int8, 16/8 of 64": partial(
        cascade, heads=16, kv_heads=8, dim=64, kv_dtype=INT8
    ),
    "write, bf16, 32/8 of 128, norms": partial(write, heads=32, kv_heads=8, dim=128),
    "write, fp16, 9/3 of 64": partial(
        write, heads=9, kv_heads=3, dim=64, dtype=FP16, has_norm=False
    ),
    "write, fp32, 32/32 of 80": partial(
        write, heads=32, kv_heads=32, dim=80, dtype=FP32, has_norm=False
    ),
    "write, bf16 into int8, 32/8 of 128, norms": partial(
        write, heads=32, kv_heads=8, dim=128, kv_dtype=INT8
    ),
    "write, bf16 into fp8, 8/4 of 256, norms": partial(
        write, heads=8, kv_heads=4, dim=256, kv_dtype=FP8
    ),
    "copy of blocks, bf16": partial(copy, dtype=BF16),
    "norm of 4,096, bf16, residual": partial(norm, hidden=4096),
    "norm of 576, fp16, residual": partial(norm, hidden=576, dtype=FP16),
    "norm of 5,376, bf16, residual and a norm": partial(norm, hidden=5376, adds_norm=True),
    "norm of 8,192, fp32": partial(norm, hidden=8192, dtype=FP32, has_residual=False),
    "SwiGLU, bf16": partial(gated, gate="silu"),
    "GeGLU, fp16": partial(gated, gate="gelu", dtype=FP16),
    "GeGLU with tanh, bf16": partial(gated, gate="gelu_tanh"),
    "a row's queries, keys, values, bf16, norm": partial(
        few_rows, width=2560, outputs=6144, has_norm=True
    ),
    "two rows' queries, keys, values, fp16, norm, bias": partial(
        few_rows, width=3584, outputs=4608, rows=2, dtype=FP16, has_norm=True, has_bias=True
    ),
    "a row's gate and up, bf16, norm": partial(
        few_rows, width=2560, outputs=9728, has_norm=True, gate="silu"
    ),
    "two rows' gate and up, bf16, norm": partial(
        few_rows, width=4096, outputs=12288, rows=2, has_norm=True, gate="silu"
    ),
    "a row's down, bf16": partial(few_rows, width=9728, outputs=2560),
    "two rows' down, fp32": partial(few_rows, width=4864, outputs=896, rows=2, dtype=FP32),
    "draw from 151,936": partial(sample, vocab=151936),
    "draw from 49,152": partial(sample, vocab=49152),
}

_SIXTEEN = {"heads": 16, "kv_heads": 8, "dim": 128}
_THIRTY_TWO = {"heads": 32, "kv_heads": 8, "dim": 128}
_SIXTY_FOUR = {"heads": 64, "kv_heads": 8, "dim": 128}
_GEMMA_2 = {"heads": 8, "kv_heads": 4, "dim": 256, "window": 4096, "softcap": 50.0}
_GEMMA_3 = {"heads": 4, "kv_heads": 1, "dim": 256, "window": 512}
_GPT_OSS = {"heads": 64, "kv_heads": 8, "dim": 64, "window": 128, "has_sinks": True}
_SMOLLM2 = {"heads": 9, "kv_heads": 3, "dim": 64}
_PHI_2 = {"heads": 32, "kv_heads": 32, "dim": 80}
_DANUBE_3 = {"heads": 32, "kv_heads": 8, "dim": 120}
_PHI_3 = {"heads": 32, "kv_heads": 32, "dim": 96}

CASES |= {
    "Qwen3 0.6B, decode": _decode(**_SIXTEEN),
    "Qwen3 0.6B, chunk": _chunk(**_SIXTEEN),
    "Qwen3 0.6B, decode, with a cap": _decode(**_SIXTEEN, softcap=50.0),
    "Llama 3 8B and Qwen3 8B, decode, last merges, int8": _decode(
        **_THIRTY_TWO, kv_dtype=INT8, num_splits=8, is_last_merging=True
    ),
    "Llama 3 8B and Qwen3 8B, chunk, in parts, int8": _chunk(
        **_THIRTY_TWO, kv_dtype=INT8, num_splits=4
    ),
    "Llama 3 8B and Qwen3 8B, decode, fp32": _decode(**_THIRTY_TWO, dtype=FP32),
    "Llama 3 8B and Qwen3 8B, decode, fp32 on int8": _decode(
        **_THIRTY_TWO, dtype=FP32, kv_dtype=INT8
    ),
    "Mistral 7B, decode, last merges": _decode(
        **_THIRTY_TWO, window=4096, num_splits=8, is_last_merging=True
    ),
    "Mistral 7B, chunk": _chunk(**_THIRTY_TWO, window=4096),
    "Llama 3 70B, decode": _decode(**_SIXTY_FOUR),
    "Llama 3 70B, decode, int8, with a window": _decode(**_SIXTY_FOUR, kv_dtype=INT8, window=4096),
    "Llama 3 70B, chunk, fp8": _chunk(**_SIXTY_FOUR, kv_dtype=FP8),
    "Gemma 2 2B, decode": _decode(**_GEMMA_2, num_splits=4),
    "Gemma 2 2B, decode, int8": _decode(**_GEMMA_2, kv_dtype=INT8),
    "Gemma 2 2B, chunk": _chunk(**_GEMMA_2),
    "Gemma 2 2B, decode, fp32 on fp8": _decode(**_GEMMA_2, dtype=FP32, kv_dtype=FP8),
    "Gemma 2 2B, chunk, fp32": _chunk(**_GEMMA_2, dtype=FP32),
    "Gemma 3 1B, decode, last merges": _decode(**_GEMMA_3, num_splits=16, is_last_merging=True),
    "Gemma 3 1B, decode, fp32": _decode(**_GEMMA_3, dtype=FP32),
    "Gemma 3 1B, chunk, int8": _chunk(**_GEMMA_3, kv_dtype=INT8),
    "gpt-oss, decode": _decode(**_GPT_OSS, num_splits=4),
    "gpt-oss, decode, fp8": _decode(**_GPT_OSS, kv_dtype=FP8),
    "gpt-oss, chunk": _chunk(**_GPT_OSS),
    "gpt-oss, chunk, int8, in parts": _chunk(**_GPT_OSS, kv_dtype=INT8, num_splits=4),
    "SmolLM2 135M, decode": _decode(**_SMOLLM2, num_splits=8),
    "SmolLM2 135M, decode, int8, last merges": _decode(
        **_SMOLLM2, kv_dtype=INT8, num_splits=8, is_last_merging=True
    ),
    "SmolLM2 135M, chunk, fp32": _chunk(**_SMOLLM2, dtype=FP32),
    "Phi-2, decode, fp8": _decode(**_PHI_2, kv_dtype=FP8),
    "Phi-2, chunk, in parts": _chunk(**_PHI_2, num_splits=2),
    "Phi-3 mini, decode, int8": _decode(**_PHI_3, kv_dtype=INT8),
    "Phi-3 mini, chunk": _chunk(**_PHI_3),
    "Danube 3, decode": _decode(**_DANUBE_3),
    "Danube 3, chunk, int8, in parts": _chunk(**_DANUBE_3, kv_dtype=INT8, num_splits=4),
    "one KV head for 48, decode, int8": _decode(heads=48, kv_heads=1, dim=128, kv_dtype=INT8),
    "one KV head for 71, decode, int8": _decode(heads=71, kv_heads=1, dim=64, kv_dtype=INT8),
    "8/4 heads of 64, decode": _decode(heads=8, kv_heads=4, dim=64),
    "8/4 heads of 64, chunk": _chunk(heads=8, kv_heads=4, dim=64),
    "8/4 heads of 256, decode, fp32": _decode(heads=8, kv_heads=4, dim=256, dtype=FP32),
    "Gemma 3 1B, write": partial(write, heads=4, kv_heads=1, dim=256),
    "gpt-oss, write into fp8": partial(write, heads=64, kv_heads=8, dim=64, kv_dtype=FP8),
    "Phi-3 mini, write into int8": partial(write, heads=32, kv_heads=32, dim=96, kv_dtype=INT8),
}

_linear = partial(partial, quantised_linear)
_rows = partial(partial, dequantised)

CASES |= {
    "linear, bf16 by 4 bits, up to 16 rows": _linear(bits=4, rows=1, num_splits=1),
    "linear, bf16 by 4 bits, up to 16 rows, 4 parts": _linear(bits=4, rows=1, num_splits=4),
    "linear, bf16 by 4 bits, up to 64 rows, 4 parts": _linear(bits=4, rows=64, num_splits=4),
    "linear, bf16 by 4 bits, up to 64 rows, bias": _linear(
        bits=4, rows=64, has_bias=True, num_splits=1
    ),
    "linear, bf16 by 4 bits, width 2,304, 2 parts, bias": _linear(
        bits=4, rows=1, width=2304, has_bias=True, num_splits=2
    ),
    "linear, bf16 by 4 bits, width 576, up to 64 rows": _linear(
        bits=4, rows=64, width=576, outputs=960, num_splits=1
    ),
    "linear, fp16 by 4 bits, up to 16 rows": _linear(bits=4, rows=16, dtype=FP16, num_splits=1),
    "linear, fp32 by 4 bits, up to 64 rows, 4 parts": _linear(
        bits=4, rows=64, dtype=FP32, num_splits=4
    ),
    "linear, bf16 by 8 bits, up to 16 rows": _linear(bits=8, rows=1, num_splits=1),
    "linear, bf16 by 8 bits, up to 16 rows, 4 parts": _linear(bits=8, rows=1, num_splits=4),
    "linear, bf16 by 8 bits, up to 64 rows, 4 parts, bias": _linear(
        bits=8, rows=64, has_bias=True, num_splits=4
    ),
    "linear, bf16 by 8 bits, width 576, up to 64 rows": _linear(
        bits=8, rows=64, width=576, outputs=49152, num_splits=1
    ),
    "linear, fp16 by 8 bits, up to 64 rows": _linear(bits=8, rows=64, dtype=FP16, num_splits=1),
    "linear, fp32 by 8 bits, up to 16 rows": _linear(bits=8, rows=1, dtype=FP32, num_splits=1),
    "numbers of 4 bits, bf16": _rows(bits=4),
    "numbers of 4 bits, fp32": _rows(bits=4, dtype=FP32),
    "numbers of 8 bits, bf16": _rows(bits=8),
    "numbers of 8 bits, bf16, rows by id": _rows(bits=8, has_rows=True),
    "numbers of 8 bits, bf16, rows by id, width 576": _rows(bits=8, has_rows=True, width=576),
}
