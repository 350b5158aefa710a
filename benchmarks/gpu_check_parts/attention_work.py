"""Attention as the engine asks for it, in real sizes on the card, and the same for torch's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F

from gpu_check_parts.attention_inputs import Shape
from gpu_check_parts.comparing import share_of_tolerance
from localpaged_kernels.launch import Launch
from localpaged_kernels.paged_attention.device_rows import DeviceRows
from localpaged_kernels.paged_attention.triton_launches import Terms, plan

SCALE_BYTES = 4
PEER_TOLERANCE = 2e-2
VARLEN_PAGE = 256
"""The page that flash attention takes where it takes no smaller one."""


@dataclass(frozen=True)
class Work:
    """One layer's attention for rows of (queries, tokens), all alike.

    Every sequence has its own blocks, in random order.
    """

    shape: Shape
    rows: int
    queries: int
    tokens: int

    @property
    def kv_bytes(self) -> int:
        """Bytes of K, V and their scales that have to be read."""
        shape = self.shape
        itemsize = int((shape.kv_dtype or shape.dtype).itemsize)
        row_bytes = shape.dim * itemsize + (SCALE_BYTES if shape.kv_dtype else 0)
        return 2 * self.rows * self.tokens * shape.kv_heads * row_bytes

    @property
    def moved_bytes(self) -> int:
        """All bytes that have to be moved at least: K and V once, queries and results."""
        shape = self.shape
        ends = self.rows * self.queries * shape.heads * shape.dim * int(shape.dtype.itemsize)
        return self.kv_bytes + 2 * ends

    @property
    def operations(self) -> int:
        """Multiplications and additions of both products, of what each query may see."""
        seen = self.queries * (2 * self.tokens - self.queries + 1) // 2
        return 4 * self.rows * seen * self.shape.heads * self.shape.dim

    @property
    def name(self) -> str:
        """How tables tell it."""
        many = f"{self.rows} sequence{'s' * (self.rows > 1)}"
        if self.queries == 1:
            return f"{many} of {self.tokens:,} tokens"
        return f"{many}, {self.queries:,} queries on {self.tokens:,} tokens"


@dataclass(frozen=True)
class Tensors:
    """A Work's tensors on the device."""

    queries: torch.Tensor
    kv: torch.Tensor
    scales: torch.Tensor | None
    tables: torch.Tensor
    lens: torch.Tensor
    starts: torch.Tensor
    out: torch.Tensor


def tensors_of(work: Work, device: torch.device) -> Tensors:
    """Make random tensors of a piece of work."""
    shape = work.shape
    blocks_a_row = -(-work.tokens // shape.block_size)
    num_blocks = work.rows * blocks_a_row + 1
    torch.manual_seed(0)
    size = (num_blocks, shape.block_size, 2, shape.kv_heads, shape.dim)
    scales = None
    if shape.kv_dtype is None:
        kv = torch.randn(size, dtype=shape.dtype, device=device)
    else:
        kv = torch.randint(-100, 100, size, dtype=torch.int8, device=device)
        if shape.kv_dtype.is_floating_point:
            kv = kv.to(shape.dtype).to(shape.kv_dtype)
        scales = torch.rand(size[:-1], device=device) / 50
    order = torch.randperm(num_blocks - 1, device=device).to(torch.int32) + 1
    queries = torch.randn(
        work.rows * work.queries, shape.heads, shape.dim, dtype=shape.dtype, device=device
    )
    return Tensors(
        queries,
        kv,
        scales,
        order.view(work.rows, blocks_a_row),
        torch.full((work.rows,), work.tokens, dtype=torch.int32, device=device),
        torch.arange(work.rows + 1, dtype=torch.int32, device=device) * work.queries,
        torch.empty_like(queries),
    )


def launches_of(
    work: Work,
    tensors: Tensors,
    *,
    num_splits: int | None = None,
    arrivals: torch.Tensor | None = None,
) -> tuple[Launch, ...]:
    """Return the launches that the engine would start for it, or those in so many parts.

    With `arrivals` [rows · kv_heads] int32, zero, the last part to be ready merges.
    """
    is_decode = work.queries == 1
    is_ruled = num_splits is None and is_decode
    count = work.rows * work.shape.kv_heads
    rows = DeviceRows(
        tensors.tables,
        tensors.lens,
        None if is_decode else tensors.starts,
        0,
        work.rows * work.queries,
        tensors.lens.sum(0, keepdim=True, dtype=torch.int32) if is_ruled else None,
    )
    if is_ruled:
        arrivals = torch.zeros(count, dtype=torch.int32, device=tensors.lens.device)
    terms = Terms(work.shape.dim**-0.5, kv_scales=tensors.scales)
    return plan(
        tensors.out,
        tensors.queries,
        tensors.kv,
        rows,
        terms,
        num_splits=num_splits,
        arrivals=arrivals,
    )


def run_launches(launches: Sequence[Launch]) -> None:
    """Start all of them."""
    for launch in launches:
        launch.run()


@dataclass(frozen=True)
class Peer:
    """torch's attention for the same work, a word on its pages, and how far it is from ours.

    `error` is a share of what is tolerated.
    """

    attend: Callable[[], torch.Tensor]
    note: str
    error: float


def varlen(
    work: Work,
    tensors: Tensors,
    varlen_attn: Callable[..., object],
    *,
    settle: Callable[[], None],
) -> Peer:
    """Return torch's paged attention for a piece of work that ours has done.

    It is given our blocks or, where it refuses pages so small, its own of 256 tokens, and of what
    runs the first that agrees. `settle` waits for the device. Raises what torch raises where it
    takes neither.
    """

    def attend(paged: Paged, key_starts: torch.Tensor | None) -> torch.Tensor:
        made = varlen_attn(
            tensors.queries,
            paged.keys,
            paged.values,
            tensors.starts,
            key_starts,
            work.queries,
            work.tokens,
            window_size=(-1, 0),
            enable_gqa=True,
            seqused_k=tensors.lens,
            block_table=paged.tables,
        )
        assert isinstance(made, torch.Tensor)
        return made

    starts = F.pad(tensors.lens.cumsum(0, dtype=torch.int32), (1, 0))
    tried: list[Peer] = []
    refused: Exception | None = None
    for make in (_our_pages, _large_pages):
        paged = make(work, tensors)
        for key_starts in (None, starts):
            run = partial(attend, paged, key_starts)
            try:
                made = run()
                settle()
            except (RuntimeError, ValueError) as error:
                refused = error
                continue
            error_share = share_of_tolerance(
                made, tensors.out, absolute=PEER_TOLERANCE, relative=PEER_TOLERANCE
            )
            tried.append(Peer(run, f"varlen_attn in pages of {paged.size}", error_share))
            if error_share <= 1:
                return tried[-1]
    if not tried:
        assert refused is not None
        raise refused
    return min(tried, key=lambda peer: peer.error)


@dataclass(frozen=True)
class Paged:
    """K and V [pages, page, kv_heads, dim] and the tables of the sequences, int32."""

    keys: torch.Tensor
    values: torch.Tensor
    tables: torch.Tensor

    @property
    def size(self) -> int:
        """Tokens of a page."""
        return int(self.keys.shape[1])


def _our_pages(work: Work, tensors: Tensors) -> Paged:
    del work
    return Paged(tensors.kv[:, :, 0], tensors.kv[:, :, 1], tensors.tables)


def _large_pages(work: Work, tensors: Tensors) -> Paged:
    """Return the same K and V in pages of 256 tokens."""
    pages = -(-work.tokens // VARLEN_PAGE)
    padding = pages * VARLEN_PAGE - work.tokens
    keys, values = (
        F.pad(side.transpose(1, 2), (0, 0, 0, 0, 0, padding)).reshape(
            work.rows * pages, VARLEN_PAGE, work.shape.kv_heads, work.shape.dim
        )
        for side in dense(work, tensors)
    )
    tables = torch.arange(work.rows * pages, dtype=torch.int32, device=keys.device)
    return Paged(keys, values, tables.view(work.rows, pages))


def dense(work: Work, tensors: Tensors) -> tuple[torch.Tensor, torch.Tensor]:
    """Return K and V without pages, [rows, kv_heads, tokens, dim], as no engine has them."""
    rows = tensors.kv[tensors.tables.long()].flatten(1, 2)[:, : work.tokens]
    keys, values = rows.permute(2, 0, 3, 1, 4)
    return keys.contiguous(), values.contiguous()


def sdpa(work: Work, tensors: Tensors) -> Callable[[], torch.Tensor] | None:
    """Return torch's attention over dense K and V; None for chunks, for which it needs a mask."""
    if work.queries not in (1, work.tokens):
        return None
    keys, values = dense(work, tensors)
    shape = work.shape
    queries = tensors.queries.view(work.rows, work.queries, shape.heads, shape.dim).transpose(1, 2)

    def attend() -> torch.Tensor:
        made: torch.Tensor = F.scaled_dot_product_attention(
            queries, keys, values, is_causal=work.queries > 1, enable_gqa=True
        )
        return made

    return attend
