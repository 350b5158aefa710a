"""Which matrices of a model stay in 8 or 4 bits on a card, and the bytes they take there.

Plain Python over what a file's header tells, so a plan is made before anything is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from localpaged.models.tensor_layout import FusedTensor

Form = Literal["dense", "int8", "int4"]
"""16 or 32 bits for each number, or groups of 32 numbers that share a scale."""

Asked = Literal["dense", "int8", "int4", "file", "packed"]
"""A form for all matrices, or for each the one that its file has it in: dense ones too, or those
in 8 bits."""

DENSE: Form = "dense"
INT8: Form = "int8"
INT4: Form = "int4"
AS_FILED: Asked = "file"
PACKED: Asked = "packed"

GROUP = 32
GROUP_BYTES: Mapping[Form, int] = {INT8: 32 + 2, INT4: 16 + 4}
"""Numbers and a scale of 16 bits; in 4 bits there is a minimum, too."""

FOUR_BIT_TYPES = frozenset({"Q4_0", "Q4_1", "Q4_K"})
"""GGUF types whose 4-bit numbers stay what they are."""

PLAIN_TYPES = frozenset({"F32", "F16", "BF16"})
EMBEDDINGS, HEAD = "embed.weight", "head.weight"


def form_of(
    fused: FusedTensor, types: Iterable[str], asked: Asked, *, is_tied: bool = False
) -> Form:
    """Return the form of a tensor whose parts have those types in their file.

    What makes logits, which are embeddings where they are tied, has 8 bits where 4 are asked for:
    what is rounded there is seen in every token. Rows that are no whole groups stay dense.
    """
    is_matrix = fused.projection or fused.name in (EMBEDDINGS, HEAD)
    if asked == DENSE or not is_matrix or fused.shape[1] % GROUP:
        return DENSE
    if asked not in (AS_FILED, PACKED):
        is_head = fused.name == (EMBEDDINGS if is_tied else HEAD)
        return INT8 if is_head or asked == INT8 else INT4
    found = set(types)
    if found <= PLAIN_TYPES:
        return INT8 if asked == PACKED else DENSE
    return INT4 if found <= FOUR_BIT_TYPES else INT8


def forms_of(
    layout: Sequence[FusedTensor], types: Mapping[str, str], asked: Asked
) -> dict[str, Form]:
    """Return the form of every tensor by its name; `types` are the file's, by its tensors' names.

    A type that is not known is taken for a plain one.
    """
    is_tied = all(fused.name != HEAD for fused in layout)

    def form(fused: FusedTensor) -> Form:
        found = [types.get(part.name, "F32") for part in fused.parts]
        return form_of(fused, found, asked, is_tied=is_tied)

    return {fused.name: form(fused) for fused in layout}


def num_bytes(fused: FusedTensor, form: Form, element_bytes: int) -> int:
    """Return what a tensor takes in a form; a dense one so many bytes for each number."""
    count = math.prod(fused.shape)
    return count * element_bytes if form == DENSE else count // GROUP * GROUP_BYTES[form]


def main_form(layout: Iterable[FusedTensor], forms: Mapping[str, Form]) -> Form:
    """Return the form that most numbers of the layers' matrices have."""
    counts: dict[Form, int] = {DENSE: 0, INT8: 0, INT4: 0}
    for fused in layout:
        if fused.projection:
            counts[forms[fused.name]] += math.prod(fused.shape)
    return max(counts, key=lambda form: counts[form])
