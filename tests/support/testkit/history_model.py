"""A model of integers for runners: a token's KV is the token, logits follow from the whole history.

It runs on every runner, and all of it can be recorded. One token read from a wrong, stale or
unwritten slot, one position or length too many, and the logits are others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from localpaged.decoder_config import DecoderConfig
from localpaged.engine.batch import Batch
from localpaged.engine.kv_storage import KVStorage
from localpaged_kernels.paged_attention.device_rows import DeviceRows, rows_of

VOCAB_SIZE = 48
PRIME = 65_521
CONFIG = DecoderConfig(
    architecture="history",
    vocab_size=VOCAB_SIZE,
    hidden_size=1,
    intermediate_size=1,
    num_layers=1,
    num_heads=1,
    num_kv_heads=1,
    head_dim=1,
    context_length=128,
    rms_norm_eps=1e-6,
    rope_theta=1e4,
)


class HistoryModel:
    """Implements PagedModel. Histories with `broken_at` tokens have no finite logits."""

    def __init__(self, *, broken_at: int = -1) -> None:
        self.config = CONFIG
        self.broken_at = broken_at

    def forward(self, batch: Batch, kv: KVStorage) -> torch.Tensor:
        """Return checksums [tokens, 1] float64 of the tokens up to each one."""
        numbers = kv.layers[0].numbers
        flat = numbers.view(-1, 2)
        rows = batch.token_ids.to(flat.dtype)[:, None].expand(-1, 2)
        flat.index_copy_(0, batch.slots, rows.contiguous())
        sums = [
            _checksums(part, numbers, batch.positions)
            for part in rows_of(batch.attention, batch.token_ids.device)
        ]
        return torch.cat(sums)[:, None].double()

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Return logits [rows, vocab] that are multiples of a sixteenth, all of a row different."""
        sums = hidden[:, :1].long()
        places = torch.arange(VOCAB_SIZE, device=hidden.device)
        mixed = (sums * (2 * places + 1) * 7_919 + places * 104_729) % PRIME
        order = mixed.argsort(dim=-1, stable=True).argsort(dim=-1, stable=True)
        logits = order.float() / 16
        length = (sums // PRIME).float()
        return torch.where(length == self.broken_at, torch.nan, logits)


def _checksums(rows: DeviceRows, numbers: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Return length · PRIME + checksum [queries] int64 of each query's history."""
    first, count = rows.first_query, rows.num_queries
    queries = torch.arange(first, first + count, device=numbers.device)
    if rows.starts is None:
        row, lens = queries - first, rows.lens.long()
    else:
        row = torch.searchsorted(rows.starts.long(), queries, right=True) - 1
        lens = positions[first : first + count] + 1
    tokens = numbers[:, :, 0, 0, 0][rows.tables.long()].flatten(1)[row].long()
    place = torch.arange(tokens.shape[1], device=numbers.device)
    weights = (place * 7_321 + 11) % 3_001
    terms = torch.where(place < lens[:, None], (tokens + 1) * weights, 0)
    return lens * PRIME + terms.sum(-1) % PRIME


def torch_draws(
    tokens: torch.Tensor,
    sound: torch.Tensor,
    logits: torch.Tensor,
    draws: Mapping[str, torch.Tensor],
) -> None:
    """A DrawKernel of torch's operators, over the sorted vocabulary; it can be recorded."""
    sound.copy_(logits.amax(-1).isfinite())
    clean = torch.where(sound[:, None] > 0, logits, 0.0)
    temperature = draws["temperatures"][:, None].clamp(min=1e-20)
    probabilities, ids = (
        (clean / temperature).softmax(-1).sort(dim=-1, descending=True, stable=True)
    )
    place = torch.arange(logits.shape[1], device=logits.device)
    top_k, top_p = draws["top_k"][:, None], draws["top_p"][:, None]
    probabilities = torch.where((top_k > 0) & (place >= top_k), 0.0, probabilities)
    probabilities = probabilities / probabilities.sum(-1, keepdim=True)
    before = probabilities.cumsum(-1) - probabilities
    probabilities = torch.where((before >= top_p) & (top_p < 1), 0.0, probabilities)
    floor = draws["min_p"][:, None] * probabilities.amax(-1, keepdim=True)
    kept = torch.where(probabilities < floor, 0.0, probabilities)
    # Without an order to keep, the walk is by id.
    is_ordered = (top_k > 0) | (top_p < 1)
    by_id = torch.zeros_like(kept).scatter(1, ids, kept)
    walked = torch.where(is_ordered, kept, by_id)
    cumulative = walked.cumsum(-1)
    target = draws["numbers"][:, None] * cumulative[:, -1:]
    found = (cumulative <= target).sum(-1, keepdim=True).clamp(max=logits.shape[1] - 1)
    drawn = torch.where(is_ordered, ids.gather(1, found), found)[:, 0]
    is_greedy = draws["temperatures"] == 0
    tokens.copy_(torch.where(is_greedy, clean.argmax(-1), drawn))


def token_bytes(count: int = VOCAB_SIZE) -> Sequence[bytes]:
    """Return a letter for each token."""
    return [bytes([ord("0") + i]) for i in range(count)]
