"""The decoder of a model in 8 bits: onnxruntime between attentions, torch for KV and attention."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.batch import Batch
from localpaged.engine.kv_storage import KVStorage, LayerKV
from localpaged.engine.layer_graphs import open_parts
from localpaged.engine.onnx_graph import Array
from localpaged.engine.operators import torch_operators
from localpaged.engine.rope import RopeTable
from localpaged_kernels import write_kv


class FusedDecoder:
    """A PagedModel. Engine thread only; weights never change.

    It is `NativeDecoder` for a state dict in 8 bits. Hidden states are float32 throughout.
    """

    def __init__(
        self, config: DecoderConfig, state: dict[str, torch.Tensor], *, num_threads: int
    ) -> None:
        """Take a state dict of `eight_bit`; the projections are taken out of it."""
        self.config = config
        self.operators = torch_operators()
        self._embed = state["embed.weight"]
        rope = RopeTable(config, dtype=torch.float32, factors=state.get("rope_factors"))
        half = config.head_dim // 2
        self._cos = rope.cos[:, :half].contiguous()
        self._sin = rope.sin[:, half:].contiguous()  # the first half's is negated
        self._parts, self._head = open_parts(config, state, num_threads=num_threads)

    def forward(self, batch: Batch, kv: KVStorage) -> torch.Tensor:
        """See PagedModel."""
        positions = batch.positions
        angles: dict[str, Array] = {
            "places": np.arange(len(positions)).reshape(1, -1),
            "cos": self._cos.index_select(0, positions).numpy(),
            "sin": self._sin.index_select(0, positions).numpy(),
        }
        hidden = F.embedding(batch.token_ids, self._embed).float().numpy()
        first, *others = self._parts
        heads = first({"hidden": hidden, **angles})
        for index, (part, layer_kv) in enumerate(zip(others, kv.layers, strict=True)):
            attended = self._attend(heads, batch, layer_kv)
            is_last = index == len(others) - 1
            inputs = {"hidden": hidden, "attended": attended.numpy()}
            hidden, *heads = part(inputs if is_last else inputs | angles)
        return torch.from_numpy(hidden)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """See PagedModel."""
        (logits,) = self._head({"hidden": hidden.numpy()})
        return torch.from_numpy(logits)

    def _attend(self, heads: list[Array], batch: Batch, kv: LayerKV) -> torch.Tensor:
        config = self.config
        queries, rows = (torch.from_numpy(part) for part in heads)
        queries = queries.view(-1, config.num_heads, config.head_dim)
        rows = rows.view(-1, 2, config.num_kv_heads, config.head_dim)
        if kv.scales is None:  # `write_kv`, but in one go
            slots = kv.numbers.view(-1, *rows.shape[1:])
            slots.index_copy_(0, batch.slots, rows.to(slots.dtype))
        else:
            write_kv(kv.numbers, rows[:, 0], rows[:, 1], batch.slots, scales=kv.scales)
        out = self.operators.attend(
            queries,
            kv.numbers,
            batch.attention,
            scale=config.head_dim**-0.5,
            window=config.sliding_window,
            kv_scales=kv.scales,
            # The exact sums of float32 are nobody's here: 16-bit numbers need no widening.
            decode_dtype=torch.bfloat16,
        )
        return out.flatten(1)
