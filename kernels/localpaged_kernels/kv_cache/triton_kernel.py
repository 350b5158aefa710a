"""Triton kernel that copies blocks: a program has a stretch of one block in one layer."""

import triton
import triton.language as tl


@triton.jit
def move_blocks(
    target_ptr, source_ptr, target_ids_ptr, source_ids_ptr, num_words,
    target_layer_stride, target_block_stride, source_layer_stride, source_block_stride,
    STRETCH: tl.constexpr, HAS_TARGET_IDS: tl.constexpr, HAS_SOURCE_IDS: tl.constexpr,
):  # fmt: skip
    copy = tl.program_id(0)
    layer = tl.program_id(1).to(tl.int64)
    words = tl.program_id(2) * STRETCH + tl.arange(0, STRETCH)
    is_word = words < num_words
    source = copy.to(tl.int64)
    if HAS_SOURCE_IDS:
        source = tl.load(source_ids_ptr + copy).to(tl.int64)
    target = copy.to(tl.int64)
    if HAS_TARGET_IDS:
        target = tl.load(target_ids_ptr + copy).to(tl.int64)
    source_place = layer * source_layer_stride + source * source_block_stride
    target_place = layer * target_layer_stride + target * target_block_stride
    read = tl.load(source_ptr + source_place + words, mask=is_word, other=0)
    tl.store(target_ptr + target_place + words, read, mask=is_word)
