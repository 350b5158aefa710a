"""What a state dict in groups has: names, shapes and dtypes, as `weights` makes them.

Steps are compiled for these and look at nothing again, so what was kept in a file is compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged.models.quantise import empty_quantised
from localpaged.models.tensor_layout import ROPE_FACTORS, tensor_layout
from localpaged.models.weight_forms import DENSE, Asked, forms_of

if TYPE_CHECKING:
    import torch

    from localpaged.models.opened_model import OpenedModel

Layout = dict[str, tuple[tuple[int, ...], "torch.dtype"]]


def grouped_layout(opened: OpenedModel, dtype: torch.dtype, weights: Asked) -> Layout:
    """Return shape and dtype of every tensor of `load_state`, what is dense in `dtype`."""
    import torch

    fused_tensors = tensor_layout(opened.config)
    types = {name: place.type for name, place in opened.places.items()}
    forms = forms_of(fused_tensors, types, weights)
    layout: Layout = {}
    if ROPE_FACTORS in opened.places:
        layout[ROPE_FACTORS] = (tuple(opened.places[ROPE_FACTORS].shape), torch.float32)
    for fused in fused_tensors:
        if (form := forms[fused.name]) == DENSE:
            layout[fused.name] = (fused.shape, dtype)
            continue
        made = empty_quantised(fused.shape, form, torch.device("meta"))
        stem = fused.name.removesuffix(".weight")
        for name, tensor in ((form, made.numbers), (f"{form}_scales", made.scales)):
            layout[f"{stem}.{name}"] = (tuple(tensor.shape), tensor.dtype)
    return layout
