"""The decoder of a processor in 8 or 4 bits: a step is one call, in which Python is nobody's.

Between two steps only policy and sampler run in Python. So a screen beside it takes no more of its
time than the processor's, and a step of few tokens takes as long as reading the weights does.
"""

from __future__ import annotations

import numpy as np
import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.batch import Batch
from localpaged.engine.drawing import select_likeliest
from localpaged.engine.eight_bit_matrix import load_matrices
from localpaged.engine.grouped_matrix import Embedding, has_groups, tie_head
from localpaged.engine.kv_storage import KVStorage, LayerKV
from localpaged.engine.operators import torch_operators
from localpaged.engine.team_views import Plan, plan_views, views_of
from localpaged_kernels.cpu_step.attention import scratch_bytes
from localpaged_kernels.cpu_step.candidates import can_select, likeliest
from localpaged_kernels.cpu_step.group_matrix import row_bytes
from localpaged_kernels.cpu_step.huge_pages import Room, room_for
from localpaged_kernels.cpu_step.llvm_code import BFLOAT16, FLOAT32, INT8, LANES
from localpaged_kernels.cpu_step.step import (
    ATTN_NORM,
    ATTN_POST_NORM,
    HEAD,
    K_NORM,
    KV,
    KV_SCALES,
    LAYER_SIZE,
    LAYERS,
    MLP_NORM,
    MLP_POST_NORM,
    Q_NORM,
    VIEW,
)
from localpaged_kernels.cpu_step.threads import Team, prepare


def select_compiled(
    logits: torch.Tensor, temperatures: torch.Tensor, count: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """See drawing.Select: many times as fast as ordering."""
    if not can_select(count, logits.shape[1]):
        return select_likeliest(logits, temperatures, count)
    rows = len(logits)
    values, ids = torch.empty(rows, count), torch.empty(rows, count, dtype=torch.int64)
    log_sums = torch.empty(rows)
    arrays = (logits.contiguous(), temperatures[:, 0], values, ids, log_sums)
    likeliest(*(array.numpy() for array in arrays))
    return values, ids, log_sums[:, None]


KV_KINDS = {torch.float32: FLOAT32, torch.bfloat16: BFLOAT16, torch.int8: INT8}

PROJECTIONS = ("qkv", "o", "gate_up", "down")

NORMS = {
    "q_norm": Q_NORM,
    "k_norm": K_NORM,
    "attn_norm": ATTN_NORM,
    "attn_post_norm": ATTN_POST_NORM,
    "mlp_norm": MLP_NORM,
    "mlp_post_norm": MLP_POST_NORM,
}

FEWEST_ROWS = 64
"""Tokens of a step that there is always room for."""


class TeamDecoder:
    """A PagedModel of a state dict whose matrices it takes away: `eight_bit`, or `grouped_matrix`.

    Engine thread only; weights never change. A token's hidden state depends on its own sequence
    alone, to the last bit: sums are exact or have one order, whatever else is in the batch.
    """

    def __init__(
        self, config: DecoderConfig, state: dict[str, torch.Tensor], *, threads: int
    ) -> None:
        assert config.head_dim % LANES == 0, "`can_be_eight_bit` looks at that"
        prepare()
        self.config = config
        self.operators = torch_operators()
        self._embed = Embedding(state)
        self._has_groups = has_groups(state)
        if self._has_groups:
            tie_head(state)
        names = [f"layers.{i}.{name}" for i in range(config.num_layers) for name in PROJECTIONS]
        self._matrices = load_matrices(state, [*names, "head"])
        self._views, self._view_of = views_of(config, state.get("rope_factors"))
        self._norms = {
            name: tensor.float() for name, tensor in state.items() if name.endswith("norm.weight")
        }
        self._group = config.num_heads // config.num_kv_heads
        self._team = Team(threads)
        self._addresses = self._told_layers()
        self._told_kv: tuple[LayerKV, ...] = ()
        self._scratch = self._tell_model(
            turn_block=len(state.get("layers.0.down.turn", ())),
            read_block=len(state.get("read.turn", ())),
        )
        self._num_rows = self._num_parts = 0
        self._rooms: dict[str, Room] = {}
        self._make_rows(FEWEST_ROWS)
        self._make_parts(FEWEST_ROWS)

    def forward(self, batch: Batch, kv: KVStorage) -> torch.Tensor:
        """See PagedModel."""
        attention, job = batch.attention, self._team.job
        assert attention.block_size == LANES
        hidden = self._embed(batch.token_ids)
        if self.config.embed_scale != 1:
            hidden *= self.config.embed_scale
        tables = torch.cat(attention.tables).numpy()
        plans = plan_views(
            self._views, attention, tables, group=self._group, threads=self._team.threads
        )
        self._tell_kv(kv)
        self._make_rows(len(hidden))
        self._make_parts(max(plan[-1] for plan in plans))
        job["tables"] = tables.ctypes.data
        job["positions"], job["slots"] = batch.positions.data_ptr(), batch.slots.data_ptr()
        self._tell(LAYERS, hidden)
        self._tell_views(plans, positions=max(attention.seq_lens))
        self._team.run()
        return hidden

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """See PagedModel."""
        hidden = hidden.contiguous()
        head = self._matrices["head"]
        logits = torch.empty(len(hidden), head.padded)
        self._make_rows(len(hidden))
        self._team.job["logits"] = logits.data_ptr()
        self._tell(HEAD, hidden)
        self._team.run()
        return logits[:, : head.outputs]

    def _tell(self, kind: int, hidden: torch.Tensor) -> None:
        job = self._team.job
        job["kind"], job["rows"], job["hidden"] = kind, len(hidden), hidden.data_ptr()

    def _tell_views(self, plans: list[Plan], *, positions: int) -> None:
        """Write down what is left, which differs between layers of several kinds."""
        jobs = self._team.jobs
        if len(self._views) > 1:
            told = jobs.view(np.uint8).reshape(len(jobs), -1)  # field by field takes 20 µs
            told[1:] = told[0]
        for view, (units, members, first_parts, num_parts, _), job in zip(
            self._views, plans, jobs, strict=False
        ):
            view.need(positions)
            job["window"] = view.window
            rope = view.rope
            job["cos"] = 0 if rope is None else rope.cos.data_ptr()
            job["sin"] = 0 if rope is None else rope.sin.data_ptr()
            job["units"], job["members"] = units.ctypes.data, members.ctypes.data
            job["first_parts"], job["num_parts"] = first_parts.ctypes.data, num_parts.ctypes.data
            job["num_units"] = len(units)

    def _told_layers(self) -> np.ndarray:
        """Return the addresses of all layers' weights; those of KV are told later."""
        addresses = np.zeros((self.config.num_layers, LAYER_SIZE), np.int64)
        for i, row in enumerate(addresses):
            matrices = [self._matrices[f"layers.{i}.{name}"] for name in PROJECTIONS]
            row[:Q_NORM] = [address for matrix in matrices for address in matrix.addresses]
            row[VIEW] = self._view_of[i]
            for name, place in NORMS.items():
                row[place] = self._norm_address(f"layers.{i}.{name}.weight")
        return addresses

    def _norm_address(self, name: str) -> int:
        return self._norms[name].data_ptr() if name in self._norms else 0

    def _tell_model(self, *, turn_block: int, read_block: int) -> Room:
        """Write down what no step changes; return the threads' own memory."""
        config, job = self.config, self._team.job
        head = self._matrices["head"]
        qkv, o, gate_up = (self._matrices[f"layers.0.{name}"] for name in PROJECTIONS[:3])
        own_bytes = room_for(
            scratch_bytes(self._group, config.num_kv_heads, config.head_dim), np.uint8
        )
        scratch = Room(own_bytes * self._team.threads)
        told: dict[str, float] = {
            "layer_addresses": self._addresses.ctypes.data,
            "layers": config.num_layers,
            "width": config.hidden_size,
            "heads": config.num_heads,
            "kv_heads": config.num_kv_heads,
            "head_dim": config.head_dim,
            "inner": config.intermediate_size,
            "turn_block": turn_block,
            "read_block": read_block,
            "has_groups": self._has_groups,
            "is_gelu": config.activation == "gelu_tanh",
            "norm": self._norm_address("norm.weight"),
            "outputs": head.padded,
            "qkv_outputs": qkv.padded,
            "o_outputs": o.padded,
            "gate_up_outputs": gate_up.padded,
            "eps": config.rms_norm_eps,
            "softmax_scale": config.softmax_scale,
            "score_cap": config.attention_softcap or 0,
            "logit_cap": config.logit_softcap or 0,
            "scratch_bytes": own_bytes,
            "scratch": scratch.take(own_bytes * self._team.threads, np.uint8).ctypes.data,
        }
        names = ("head_weights", "head_scales", "head_biases")
        for name, value in (*told.items(), *zip(names, head.addresses, strict=True)):
            job[name] = value
        return scratch

    def _tell_kv(self, kv: KVStorage) -> None:
        if self._told_kv is kv.layers:
            return
        for row, layer in zip(self._addresses, kv.layers, strict=True):
            row[KV] = layer.numbers.data_ptr()
            row[KV_SCALES] = 0 if layer.scales is None else layer.scales.data_ptr()
        numbers = kv.layers[0].numbers
        self._team.job["kv_kind"] = KV_KINDS[numbers.dtype]
        self._team.job["kv_item_bytes"] = numbers.itemsize
        self._told_kv = kv.layers

    def _make_rows(self, count: int) -> None:
        """Have memory for what is between two products of so many tokens."""
        if count <= self._num_rows:
            return
        self._num_rows = count
        config = self.config
        matrices = [self._matrices[f"layers.0.{name}"] for name in PROJECTIONS]
        qkv, o, gate_up, _ = matrices
        self._make(
            "rows",
            normed=(count * config.hidden_size, np.float32),
            rounded=(count * self._rounded_bytes(max(m.inputs for m in matrices)), np.int8),
            scales=(count, np.float32),
            sums=(count, np.int32),
            qkv=(count * qkv.padded, np.float32),
            attended=(count * config.num_heads * config.head_dim, np.float32),
            wide=(count * max(o.padded, gate_up.padded), np.float32),
        )

    def _rounded_bytes(self, width: int) -> int:
        return row_bytes(width) if self._has_groups else width

    def _make_parts(self, count: int) -> None:
        """Have memory for so many parts of attention that are put together."""
        if count <= self._num_parts:
            return
        self._num_parts = count
        heads = count * self.config.num_heads
        self._make(
            "parts",
            parts=(heads * self.config.head_dim, np.float32),
            part_states=(2 * heads, np.float32),
        )

    def _make(self, purpose: str, **arrays: tuple[int, type]) -> None:
        room = Room(sum(room_for(count, dtype) for count, dtype in arrays.values()))
        self._rooms[purpose] = room
        for name, (count, dtype) in arrays.items():
            self._team.job[name] = room.take(count, dtype).ctypes.data
