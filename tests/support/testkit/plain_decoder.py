"""A decoder in plain float32, without cache or chunks, and what to put into it."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.rope import RopeTable, rotate


def random_state(config: DecoderConfig, *, seed: int = 0) -> dict[str, torch.Tensor]:
    """Return a state dict of `native` in which no term is small enough to be left out unseen."""
    generator = torch.Generator().manual_seed(seed)
    hidden, inner = config.hidden_size, config.intermediate_size
    attended = config.num_heads * config.head_dim
    norms = {"attn_norm": hidden, "mlp_norm": hidden}
    if config.has_post_norms:
        norms |= {"attn_post_norm": hidden, "mlp_post_norm": hidden}
    if config.has_qk_norm:
        norms |= {"q_norm": config.head_dim, "k_norm": config.head_dim}
    matrices = {
        "qkv": (config.qkv_rows, hidden),
        "o": (hidden, attended),
        "gate_up": (2 * inner, hidden),
        "down": (hidden, inner),
    }

    def matrix(rows: int, columns: int) -> torch.Tensor:
        return torch.randn(rows, columns, generator=generator) / columns**0.5

    def norm(width: int) -> torch.Tensor:
        return torch.rand(width, generator=generator) + 0.5

    state = {"embed.weight": matrix(config.vocab_size, hidden), "norm.weight": norm(hidden)}
    if not config.is_tied:
        state["head.weight"] = matrix(config.vocab_size, hidden)
    for index in range(config.num_layers):
        for name, shape in matrices.items():
            state[f"layers.{index}.{name}.weight"] = matrix(*shape)
        for name, width in norms.items():
            state[f"layers.{index}.{name}.weight"] = norm(width)
    return state


class PlainDecoder:
    """Computes one sequence from its first token on, from a state dict of `native`."""

    def __init__(self, config: DecoderConfig, state: Mapping[str, torch.Tensor]) -> None:
        self.config = config
        self._state = {name: tensor.float() for name, tensor in state.items()}
        factors = state.get("rope_factors")
        self._rope = RopeTable(config, dtype=torch.float32, factors=factors)
        self._local_rope = self._rope
        if config.local_rope_theta is not None:
            self._local_rope = RopeTable(config, dtype=torch.float32, is_local=True)

    def forward(self, token_ids: list[int]) -> torch.Tensor:
        """Return the hidden states [tokens, hidden] behind the last layer."""
        hidden = self._state["embed.weight"][torch.tensor(token_ids)] * self.config.embed_scale
        for index in range(self.config.num_layers):
            qkv = self._project(self._norm(hidden, f"layers.{index}.attn_norm"), f"{index}.qkv")
            added = self._project(self._attend(qkv, index), f"{index}.o")
            hidden = hidden + self._post_norm(added, f"layers.{index}.attn_post_norm")
            normed = self._norm(hidden, f"layers.{index}.mlp_norm")
            gates, ups = self._project(normed, f"{index}.gate_up").chunk(2, dim=1)
            is_silu = self.config.activation == "silu"
            gates = F.silu(gates) if is_silu else F.gelu(gates, approximate="tanh")
            added = self._project(gates * ups, f"{index}.down")
            hidden = hidden + self._post_norm(added, f"layers.{index}.mlp_post_norm")
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return the logits of hidden states [tokens, hidden]."""
        head = self._state["embed.weight" if self.config.is_tied else "head.weight"]
        return _capped(self._norm(hidden, "norm") @ head.t(), self.config.logit_softcap)

    def _project(self, x: torch.Tensor, name: str) -> torch.Tensor:
        bias = self._state.get(f"layers.{name}.bias")
        return F.linear(x, self._state[f"layers.{name}.weight"], bias)

    def _norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.rms_norm(x, x.shape[-1:], self._state[f"{name}.weight"], self.config.rms_norm_eps)

    def _post_norm(self, added: torch.Tensor, name: str) -> torch.Tensor:
        return self._norm(added, name) if self.config.has_post_norms else added

    def _attend(self, qkv: torch.Tensor, index: int) -> torch.Tensor:
        config, tokens = self.config, len(qkv)
        counts = [config.num_heads, config.num_kv_heads, config.num_kv_heads]
        queries, keys, values = qkv.view(tokens, -1, config.head_dim).split(counts, dim=1)
        if config.has_qk_norm:
            queries = self._norm(queries, f"layers.{index}.q_norm")
            keys = self._norm(keys, f"layers.{index}.k_norm")
        window = config.window(index)
        positions = torch.arange(tokens)
        if index in config.unrotated_layers:
            positions = torch.zeros_like(positions)
        cos, sin = (self._rope if window is None else self._local_rope).at(positions)
        group = config.num_heads // config.num_kv_heads
        queries = rotate(queries, cos, sin) * config.softmax_scale
        keys = rotate(keys, cos, sin).repeat_interleave(group, dim=1)
        values = values.repeat_interleave(group, dim=1)
        scores = _capped(torch.einsum("qhd,khd->hqk", queries, keys), config.attention_softcap)
        behind = torch.arange(tokens)[:, None] - torch.arange(tokens)
        is_seen = (behind >= 0) & (behind < (window or tokens))
        weights = scores.masked_fill(~is_seen, float("-inf")).softmax(dim=-1)
        return torch.einsum("hqk,khd->qhd", weights, values).flatten(1)


def _capped(numbers: torch.Tensor, cap: float | None) -> torch.Tensor:
    return numbers if cap is None else cap * torch.tanh(numbers / cap)
