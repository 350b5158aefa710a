"""What loading a model will take, told and checked before anything is allocated."""

from __future__ import annotations

from dataclasses import dataclass

from localpaged.decoder_config import DecoderConfig
from localpaged.errors import NoRoom
from localpaged.plain_text import visible

MEMORY_NEEDED = "Memory needed of what is free"
"""The stage of loading that tells the whole plan, before anything is allocated or refused."""

LOGITS_ROWS = 64
"""Rows of float32 logits that a step may hold at once."""

SAMPLER_COPIES = 5
"""Of those logits, while tokens are drawn: adjusted, sorted with their places, summed."""

CAPPED_COPIES = 3
"""Of one KV head's scores, while they are capped and become weights."""

PARTS_BYTES = 2 * 2 * 256 * 64 * 4
"""Attention cut into parts, for each number of a head: two programs of 64 rows for each of 256
processors, in float32, twice for beginnings that are shared."""

GRAPH_SIZES = 8
"""Numbers of rows at most that steps are recorded of."""

GRAPH_BYTES_A_LAYER = 1 << 20
"""An estimate, which is what there is before a step was recorded: loading measures the first one,
and corrects the pool where it was too low."""

PIECE_NUMBERS = 2**24
"""Of a matrix in 8 or 4 bits that are made wide at a time, where rows are many."""

PACKED_PARTS_BYTES = 2 * 2 * 256 * 64 * 64 * 4
"""Parts of sums of few rows: two programs of 64 outputs for each of 256 processors, in float32, and
once more for recorded steps."""

LEFT_BYTES = 128 << 20
"""What has to be left on a card for who else wants some, after all that was planned is there."""

CARD_RESERVE_BYTES = 512 << 20
"""What no plan can name: code of kernels that is loaded when it is first used, workspaces of
matrix products, what other programs take meanwhile."""

MATRICES_A_LAYER = 4
MATRIX_ROUNDING_BYTES = 2 << 20
"""To which torch rounds each large tensor on a card."""

UNRETURNED_BYTES = 64 << 20
"""What is freed while matrices are packed goes back to the system by so much."""

PINNED_ROUNDING_BYTES = 64 << 20
"""What pinned memory takes more than was asked for, at most: torch pins powers of two."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Bytes by purpose, where the model is computed.

    `kv_bytes` is what the pool begins with; it may grow later, beside a card it does not.
    `graph_bytes` and `reserve_bytes` are a card's alone. `host_bytes` is KV in the host's memory
    beside a card, on top of all this.
    """

    weight_bytes: int
    kv_bytes: int
    working_bytes: int
    graph_bytes: int = 0
    reserve_bytes: int = 0
    host_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """All of it but what is in the host's memory beside a card."""
        return sum(num_bytes for _, num_bytes in self.parts)

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """What the total is made of: a purpose and its bytes."""
        parts = (
            ("for weights", self.weight_bytes),
            ("for KV", self.kv_bytes),
            ("to compute", self.working_bytes),
            ("for graphs", self.graph_bytes),
            ("in reserve", self.reserve_bytes),
        )
        return parts[:3] + tuple(part for part in parts[3:] if part[1])

    def fits(self, *, free_bytes: int, host_free_bytes: int) -> bool:
        """Whether there is room for all of it."""
        return self.total_bytes <= free_bytes and self.host_bytes <= host_free_bytes

    def check(
        self,
        model_name: str,
        *,
        free_bytes: int,
        host_free_bytes: int = 0,
        where: str = "",
        hint: str = "",
    ) -> None:
        """Raise NoRoom, with the numbers and `hint`, when it does not fit into the free memory."""
        if self.total_bytes > free_bytes:
            parts = ", ".join(f"{gib(num_bytes)} {purpose}" for purpose, num_bytes in self.parts)
            on = f" on {visible(where)}" if where else ""
            raise NoRoom(
                f"{visible(model_name)} needs {gib(self.total_bytes)}{on}: {parts};"
                f" {gib(free_bytes)} are free.",
                hint=hint,
            )
        if self.host_bytes > host_free_bytes:
            raise NoRoom(
                f"{gib(self.host_bytes)} of host memory were asked for; {gib(host_free_bytes)} are"
                " free.",
                hint=hint,
            )


def working_bytes(
    config: DecoderConfig, *, step_tokens: int, logits_rows: int = LOGITS_ROWS
) -> int:
    """Return what a forward pass of `step_tokens` tokens holds besides weights and KV, at most."""
    widest = max(2 * config.intermediate_size, config.qkv_rows) + 4 * config.hidden_size
    return 4 * (step_tokens * widest + logits_rows * config.vocab_size)


def processor_working_bytes(config: DecoderConfig, *, step_tokens: int) -> int:
    """Return the same for the processor: angles are a table, and scores that are capped exist."""
    scores = 0
    if config.attention_softcap is not None:
        group = config.num_heads // config.num_kv_heads
        scores = CAPPED_COPIES * 4 * step_tokens * group * config.context_length
    return working_bytes(config, step_tokens=step_tokens) + angles_bytes(config) + scores


def angles_bytes(config: DecoderConfig) -> int:
    """Return what tables of angles take at most; windows may have one of their own."""
    tables = 1 if config.local_rope_theta is None else 2
    return tables * 2 * 4 * config.context_length * config.head_dim


def draws_bytes(config: DecoderConfig, *, max_running: int) -> int:
    """Return what logits of so many sequences take on a card, with all that is drawn from them."""
    return 4 * (1 + SAMPLER_COPIES) * max_running * config.vocab_size


def eight_bit_bytes(config: DecoderConfig) -> int:
    """Return what a model takes whose projections and head are in 8 bits, embeddings in 16.

    A head that is made of the embeddings is turned in a way of its own.
    """
    words = config.vocab_size * config.hidden_size
    return config.num_layers * _layer_numbers(config) + (1 + 2) * words


def grouped_bytes(config: DecoderConfig, weight_bytes: int) -> int:
    """Return what weights in groups take where a processor computes with them; all have biases.

    `weight_bytes` is what they take in those forms. A head that is made of the embeddings is packed
    in a way of its own, 34 bytes for 32 numbers.
    """
    tied = config.vocab_size * config.hidden_size * 34 // 32 if config.is_tied else 0
    outputs = config.qkv_rows + 2 * config.hidden_size + 2 * config.intermediate_size
    return weight_bytes + tied + 4 * (config.num_layers * outputs + config.vocab_size)


def packing_bytes(config: DecoderConfig) -> int:
    """Return what packing weights in groups takes beside them: a matrix that is there twice, at
    most, and what was freed and not yet given back."""
    largest = max(config.vocab_size, 2 * config.intermediate_size) * config.hidden_size
    return largest * 34 // 32 + UNRETURNED_BYTES


def rounding_bytes(config: DecoderConfig) -> int:
    """Return what rounding to 8 bits takes beside the rounded weights, while it lasts.

    It is a layer in 16 bits and, one after the other, three times in float32; or the head in 16
    bits as it was, unless that stays as the embeddings, and as it is turned.
    """
    words = config.vocab_size * config.hidden_size
    is_kept = config.has_post_norms and config.is_tied
    return max((2 + 3 * 4) * _layer_numbers(config), (2 if is_kept else 4) * words)


def _layer_numbers(config: DecoderConfig) -> int:
    attention = (config.qkv_rows + config.num_heads * config.head_dim) * config.hidden_size
    return attention + 3 * config.intermediate_size * config.hidden_size


def card_working_bytes(config: DecoderConfig, *, step_tokens: int, max_running: int) -> int:
    """Return the same for a card: draws happen there, attention has parts, angles are a table."""
    draws = draws_bytes(config, max_running=max_running)
    parts = PARTS_BYTES * config.head_dim
    layers = working_bytes(config, step_tokens=step_tokens, logits_rows=0)
    return layers + draws + angles_bytes(config) + parts


def packed_working_bytes(config: DecoderConfig) -> int:
    """Return what matrices in 8 or 4 bits take on a card while they are multiplied.

    A piece of one as numbers of 16 bits is there twice: recorded steps have memory of their own.
    """
    words = config.vocab_size * config.hidden_size
    layer = 2 * config.intermediate_size * config.hidden_size
    largest = max(words, layer, config.qkv_rows * config.hidden_size)
    return 2 * 2 * min(PIECE_NUMBERS, largest) + PACKED_PARTS_BYTES


def num_graphs(max_running: int) -> int:
    """Return how many steps may be recorded.

    Those of one row and of some powers of two, of more than one row with shared beginnings and
    without, and that of a short chunk.
    """
    sizes = (max_running - 1).bit_length() + 1
    return 2 * min(sizes, GRAPH_SIZES)


def graph_bytes(config: DecoderConfig, *, max_running: int) -> int:
    """Return what recorded decode steps take: their nodes, and one place for what they compute."""
    nodes = num_graphs(max_running) * config.num_layers * GRAPH_BYTES_A_LAYER
    return nodes + working_bytes(config, step_tokens=max_running, logits_rows=max_running)


def card_reserve_bytes(config: DecoderConfig) -> int:
    """Return what has to stay free on a card beside everything that is planned."""
    rounding = config.num_layers * MATRICES_A_LAYER * MATRIX_ROUNDING_BYTES // 2
    return CARD_RESERVE_BYTES + rounding


def gib(num_bytes: int) -> str:
    """Return bytes as sentences tell them."""
    return f"{num_bytes / 2**30:.2f} GiB"
