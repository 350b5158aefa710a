"""Weights for a device are the same, and the host never has more of them than a chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from localpaged.models import weights
from localpaged.models.open_model import open_model
from testkit.gguf_files import save_tiny_gguf

if TYPE_CHECKING:
    from pathlib import Path

    from localpaged.models.weight_forms import Asked

CHUNK_ITEMS = 1_000


class HostSizes(TorchDispatchMode):  # type: ignore[misc]
    """Remembers the largest tensor that was made in host memory, in bytes."""

    largest = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        """Run an operator and look at what it made."""
        made = func(*args, **(kwargs or {}))
        if func is torch.ops.aten.empty.memory_format and made.device.type == "cpu":
            self.largest = max(self.largest, made.nbytes)
        return made


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut even a tiny model's tensors."""
    monkeypatch.setattr(weights, "DEVICE_CHUNK_ITEMS", CHUNK_ITEMS)
    monkeypatch.setattr(weights, "CHUNK_ITEMS", CHUNK_ITEMS // 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("family", ["llama3-rope", "qwen2"])
def test_weights_are_those_of_the_host(tmp_path: Path, family: str, dtype: torch.dtype):
    opened = open_model(save_tiny_gguf(tmp_path, family, quantisation="Q8_0"))
    expected = weights.load_state(opened, dtype=dtype)
    found = weights.load_state(opened, dtype=dtype, device=torch.device("cpu"))
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name


def test_the_host_has_a_chunk_at_most(tmp_path: Path):
    opened = open_model(save_tiny_gguf(tmp_path, "llama"))
    with HostSizes() as sizes:
        state = weights.load_state(opened, dtype=torch.float16, device=torch.device("meta"))
    assert {tensor.device.type for tensor in state.values()} == {"meta"}
    assert state["embed.weight"].nbytes > 10 * 4 * CHUNK_ITEMS
    assert 0 < sizes.largest <= 4 * CHUNK_ITEMS


@pytest.mark.parametrize("form", ["int8", "int4"])
def test_the_host_has_a_chunk_of_what_is_rounded_on_its_way(tmp_path: Path, form: Asked):
    opened = open_model(save_tiny_gguf(tmp_path, "llama"))
    with HostSizes() as sizes:
        state = weights.load_state(
            opened, dtype=torch.float16, weights=form, device=torch.device("meta")
        )
    assert {tensor.device.type for tensor in state.values()} == {"meta"}
    assert state["head.int8"].nbytes > 4 * 4 * CHUNK_ITEMS
    assert 0 < sizes.largest <= 4 * CHUNK_ITEMS
