"""Steps for nobody: what a first prompt and a first answer need is compiled while loading.

Which kernels a step takes depends on its rows: how many there are, whether attention is cut into
parts, who shares a beginning, what is asked for. These plans have a row of each kind. They read and
write the block that nobody reads.
"""

from __future__ import annotations

from dataclasses import replace

from localpaged.engine.block_pool import WRITE_PAD_BLOCK
from localpaged.engine.params import SamplingParams
from localpaged.engine.step_plan import Draw, PlannedRow, PromptScores, StepPlan

SHARED_TOKENS = 320
"""Of a beginning that two decodes share, which is enough to attend to it together."""

LEAST_CHUNK = 2

EVERYTHING = SamplingParams(
    temperature=1.0,
    top_k=2,
    top_p=0.5,
    min_p=0.1,
    repetition_penalty=1.1,
    presence_penalty=0.1,
    logit_bias=((0, 0.0),),
    min_tokens=1,
    logprobs=1,
)


def plain_row(context: int, *, num_blocks: int, block_size: int, number: int = 0) -> PlannedRow:
    """Return a decode behind `context` tokens, or as many as its table of blocks has room for."""
    start = min(context, num_blocks * block_size) - 1
    return _row(number, 1, start=start, num_blocks=num_blocks)


def chunk_row(num_tokens: int, *, num_blocks: int, number: int = 0) -> PlannedRow:
    """Return a prompt chunk at the beginning of a table, the last token of which draws."""
    return _row(number, num_tokens, num_blocks=num_blocks)


def wishful(row: PlannedRow, *, vocab_size: int) -> PlannedRow:
    """Return a row that asks for everything that is done to logits."""
    return replace(
        row,
        sampling=EVERYTHING,
        history=(0,),
        barred_ids=(0,),
        allowed=b"\xff" * -(-vocab_size // 8),
    )


def steps_for_nobody(
    *, context_blocks: int, block_size: int, step_tokens: int, vocab_size: int
) -> list[StepPlan]:
    """Return steps with a row of every kind, the widest of `step_tokens` tokens."""
    context = context_blocks * block_size

    def decode(number: int, num_blocks: int) -> PlannedRow:
        return plain_row(SHARED_TOKENS, num_blocks=num_blocks, block_size=block_size, number=number)

    steps: list[tuple[PlannedRow, ...]] = [
        (wishful(decode(0, 1), vocab_size=vocab_size),),
        (decode(0, context_blocks),),
    ]
    if context > LEAST_CHUNK:
        widest = min(max(step_tokens - 1, LEAST_CHUNK), context)
        shortest = chunk_row(LEAST_CHUNK, num_blocks=context_blocks, number=2)
        long = chunk_row(widest, num_blocks=-(-widest // block_size), number=1)
        # In parts behind a long table, and beside decodes that share; whole behind a short one.
        steps.append((decode(0, context_blocks), decode(1, context_blocks), shortest))
        # With an odd number of heads parts behind an odd number of decodes are not aligned.
        steps.append((decode(0, context_blocks), shortest))
        scores = PromptScores(0, (0,), 1)
        steps.append((decode(0, 1), replace(long, prompt_scores=scores)))
        # A row or two are projected by kernels of their own.
        steps.append((replace(shortest, prompt_scores=scores),))
    return [StepPlan(rows, ()) for rows in steps]


def is_decode(step: StepPlan) -> bool:
    """Return whether all rows of a step are decodes, which are recorded where that is possible."""
    return all(row.is_decode for row in step.rows)


def _row(
    number: int,
    num_tokens: int,
    *,
    num_blocks: int,
    start: int = 0,
) -> PlannedRow:
    return PlannedRow(
        sequence_id=-1 - number,
        request_id="",
        token_ids=(0,) * num_tokens,
        start=start,
        block_table=(WRITE_PAD_BLOCK,) * num_blocks,
        sampling=SamplingParams(temperature=0.0),
        draws=(Draw(0, 0, 0),),
    )
