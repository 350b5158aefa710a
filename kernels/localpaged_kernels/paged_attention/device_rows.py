"""DeviceRows: the rows of a step as a GPU kernel reads them, with nothing known to the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from localpaged_kernels.paged_attention.batch import AttentionBatch


@dataclass(frozen=True, slots=True)
class DeviceRows:
    """Rows that one launch attends for; tensors are int32 on the device of the queries.

    Row r has the queries starts[r] up to starts[r + 1] of the step, its last ones of lens[r] tokens
    with KV, in the blocks `tables` [rows, widest] names. Where `starts` is None each row has one
    query and the first is `first_query`. `num_queries` is all of them, at most. What lies in a
    table behind its sequence's end is never looked at. The lengths are the device's own: a launch
    that was captured reads those that are there when it is replayed. `kv_tokens` [1] is their sum;
    where it is known, long sequences among short ones are cut into more parts than those.
    """

    tables: torch.Tensor
    lens: torch.Tensor
    starts: torch.Tensor | None
    first_query: int
    num_queries: int
    kv_tokens: torch.Tensor | None = None

    @property
    def num_rows(self) -> int:
        """Rows, padding included."""
        return int(self.tables.shape[0])


def rows_of(batch: AttentionBatch, device: torch.device) -> tuple[DeviceRows, ...]:
    """Return a step's decodes and its prompt chunks, those that there are; made once a step."""
    key = ("device rows", device)
    if key not in batch.shared:
        decodes = range(batch.num_decodes)
        chunks = range(batch.num_decodes, len(batch.query_lens))
        batch.shared[key] = tuple(_rows(batch, rows, device) for rows in (decodes, chunks) if rows)
    made = batch.shared[key]
    assert isinstance(made, tuple)
    return made


def _rows(batch: AttentionBatch, rows: range, device: torch.device) -> DeviceRows:
    import torch  # the package is imported where torch is not

    tables = [batch.tables[row].to(torch.int32) for row in rows]
    first = sum(batch.query_lens[: rows.start])
    query_lens = [batch.query_lens[row] for row in rows]
    starts = torch.tensor([first, *query_lens], dtype=torch.int32).cumsum(0, dtype=torch.int32)
    lens = [batch.seq_lens[row] for row in rows]
    is_one_query = rows.start == 0 and batch.num_decodes > 0
    return DeviceRows(
        tables=torch.nn.utils.rnn.pad_sequence(tables, batch_first=True).to(device),
        lens=torch.tensor(lens, dtype=torch.int32).to(device),
        starts=None if is_one_query else starts.to(device),
        first_query=first,
        num_queries=sum(query_lens),
        kv_tokens=torch.tensor([sum(lens)], dtype=torch.int32).to(device) if is_one_query else None,
    )
