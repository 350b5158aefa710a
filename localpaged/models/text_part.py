"""The part of a multimodal model that reads and writes text, under the names of a text model.

What sees pictures is left out: it takes part in nothing that is computed for text.
"""

from __future__ import annotations

from collections.abc import Mapping

from localpaged.models.tensor_layout import TensorPlace

_OTHERS = (
    "vision_tower.",
    "multi_modal_projector.",
    "model.vision_tower.",
    "model.multi_modal_projector.",
)
_RENAMED = (
    ("language_model.model.", "model."),
    ("language_model.lm_head.", "lm_head."),
    ("model.language_model.", "model."),
)


def text_part(places: Mapping[str, TensorPlace]) -> dict[str, TensorPlace]:
    """Return the places of a text model's tensors by their names; of a text model, all of them."""
    return {_renamed(name): at for name, at in places.items() if not name.startswith(_OTHERS)}


def _renamed(name: str) -> str:
    for theirs, ours in _RENAMED:
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name
