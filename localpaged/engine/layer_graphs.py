"""The dense parts of an 8-bit decoder as graphs for onnxruntime.

A step in torch is some sixty operators a layer, most of which cost more to call than to compute.
Here what stands between two attentions, from one's result to the next one's rotated queries, is
one graph. A projection brings each row to the size 1 and rounds it to 8 bits; products are exact
integers, and nothing of a row depends on the others or on how many there are. A row that is not
finite makes its own result not finite.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.onnx_graph import Graph, Part

STEP = 2 / 255
"""Numbers from -1 to 1 in 8 bits; the greatest is half a step beyond the last whole one."""
ZERO_POINT = 128


def open_parts(
    config: DecoderConfig, state: dict[str, torch.Tensor], *, num_threads: int
) -> tuple[list[Part], Part]:
    """Return the parts between attentions, one more than layers, and the head.

    All take `hidden` [tokens, hidden]. Parts but the last also take `places` [1, tokens], the
    tokens' rows in `cos` and `sin` [tokens, head_dim / 2], and end with rotated queries
    [1, tokens, heads · head_dim] and with K and V [1, tokens, 2 · kv_heads · head_dim]; parts but
    the first also take `attended`, like the queries but [tokens, ...], and begin with the new
    hidden states. The weights that are used are taken out of `state`.
    """
    parts = []
    for index in range(config.num_layers + 1):
        layer = PartBuilder(config, state)
        hidden = layer.graph.input("hidden", "tokens", config.hidden_size)
        if index > 0:
            hidden = layer.after_attention(f"layers.{index - 1}.", hidden)
        if index < config.num_layers:
            layer.before_attention(f"layers.{index}.", hidden)
        parts.append(layer.graph.open(num_threads=num_threads))
        for name in layer.used:
            del state[name]
    last = PartBuilder(config, state)
    last.head(last.graph.input("hidden", "tokens", config.hidden_size))
    head = last.graph.open(num_threads=num_threads)
    for name in last.used:
        del state[name]
    return parts, head


class PartBuilder:
    """Writes one graph. `used` names the weights that it has taken. One thread."""

    def __init__(self, config: DecoderConfig, state: Mapping[str, torch.Tensor]) -> None:
        self.graph = Graph()
        self.used: list[str] = []
        self._config = config
        self._state = state
        self._last_axis = self.graph.constant(np.array([-1]))
        self._one = self.graph.constant(np.float32(1))
        self._step = self.graph.constant(np.float32(STEP))
        self._zero_point = self.graph.constant(np.uint8(ZERO_POINT))

    def after_attention(self, prefix: str, hidden: str) -> str:
        """Add the output projection and the MLP; return the hidden states behind the layer."""
        config, graph = self._config, self.graph
        attended = graph.input("attended", "tokens", config.num_heads * config.head_dim)
        hidden = graph.node("Add", hidden, self.project(prefix + "o", attended))
        numbers, sizes = self._rounded(self._norm(hidden), config.hidden_size)
        half = config.intermediate_size
        gate, up = (
            self._product(prefix + "gate_up", part, numbers, sizes)
            for part in (slice(0, half), slice(half, 2 * half))
        )
        inner = graph.node("Mul", graph.node("QuickGelu", gate, alpha=1.0), up)  # = silu(g) · u
        turned = self.turned(inner, self._state[prefix + "down.turn"])
        hidden = graph.node("Add", hidden, self.project(prefix + "down", turned))
        graph.output(hidden)
        return hidden

    def before_attention(self, prefix: str, hidden: str) -> None:
        """Add what makes queries, keys and values."""
        config, graph = self._config, self.graph
        width = config.num_heads * config.head_dim
        kv_width = config.num_kv_heads * config.head_dim
        qkv = self.project(prefix + "qkv", self._norm(hidden))
        one_sequence = graph.constant(np.array([1, -1, config.qkv_rows]))
        widths = graph.constant(np.array([width, kv_width, kv_width]))
        whole = graph.node("Reshape", qkv, one_sequence)
        queries, keys, values = graph.nodes("Split", 3, whole, widths, axis=-1)
        angles = (
            graph.input("places", 1, "tokens", is_integer=True),
            graph.input("cos", "tokens", config.head_dim // 2),
            graph.input("sin", "tokens", config.head_dim // 2),
        )
        queries = self._head_norm(prefix + "q_norm.weight", queries, width)
        keys = self._head_norm(prefix + "k_norm.weight", keys, kv_width)
        rotated = graph.node("RotaryEmbedding", keys, *angles)
        graph.output(
            graph.node("RotaryEmbedding", queries, *angles),
            graph.node("Concat", rotated, values, axis=-1),
        )

    def head(self, hidden: str) -> None:
        """Add what makes logits."""
        self.graph.output(self.project("head", self._norm(hidden)))

    def _norm(self, rows: str, weight: torch.Tensor | None = None) -> str:
        ones = np.ones(self._config.hidden_size, dtype=np.float32)
        return self.graph.node(
            "SimplifiedLayerNormalization",
            rows,
            self.graph.constant(ones if weight is None else weight.float().numpy()),
            axis=-1,
            epsilon=self._config.rms_norm_eps,
        )

    def _head_norm(self, name: str, heads: str, width: int) -> str:
        weight = self._state.get(name)
        if weight is None:
            return heads
        apart = self.graph.constant(np.array([-1, len(weight)]))
        together = self.graph.constant(np.array([1, -1, width]))
        normed = self._norm(self.graph.node("Reshape", heads, apart), weight)
        return self.graph.node("Reshape", normed, together)

    def turned(self, rows: str, block: torch.Tensor) -> str:
        """Multiply every block of what `down` reads by a matrix; return the rows."""
        graph, size = self.graph, len(block)
        blocks = graph.node("Reshape", rows, graph.constant(np.array([-1, size])))
        turned = graph.node("MatMul", blocks, graph.constant(block.float().numpy()))
        width = self._config.intermediate_size
        return graph.node("Reshape", turned, graph.constant(np.array([-1, width])))

    def project(self, name: str, rows: str) -> str:
        """Add the projection `name` of rows; return its results."""
        num_outputs, width = self._state[f"{name}.eight_bit"].shape
        return self._product(name, slice(0, num_outputs), *self._rounded(rows, width))

    def _product(self, name: str, outputs: slice, numbers: str, sizes: str) -> str:
        graph = self.graph
        weight = self._state[f"{name}.eight_bit"][outputs].t().contiguous()
        scales = self._state[f"{name}.eight_bit_scales"][outputs] * STEP
        if f"{name}.eight_bit" not in self.used:
            self.used.append(f"{name}.eight_bit")
        product = graph.node(
            "MatMulIntegerToFloat",
            numbers,
            graph.weight(weight.numpy()),
            self._one,
            graph.constant(scales.numpy()),
            self._zero_point,
        )
        y = graph.node("Mul", product, sizes)
        bias = self._state.get(f"{name}.bias")
        return y if bias is None else graph.node("Add", y, graph.constant(bias.float().numpy()))

    def _rounded(self, rows: str, width: int) -> tuple[str, str]:
        """Return rows as whole steps about ZERO_POINT, and the rows' sizes.

        A row of zeros divided by its size is not a number, gets any whole ones, and is 0 again
        when it is multiplied by its size. The greatest of numbers may miss one that is not finite;
        a product with zeros does not.
        """
        graph = self.graph
        largest = graph.node("ReduceMax", graph.node("Abs", rows), self._last_axis, keepdims=1)
        sized = graph.node("Div", rows, largest)
        numbers = graph.node("QuantizeLinear", sized, self._step, self._zero_point)
        zeros = graph.constant(np.zeros((width, 1), dtype=np.float32))
        return numbers, graph.node("Add", largest, graph.node("MatMul", rows, zeros))
