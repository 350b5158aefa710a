"""Sequence: the tokens of one answer, which of them are computed, and where their KV lies."""

from __future__ import annotations

from enum import StrEnum

from localpaged.engine.grammar import Matcher
from localpaged.engine.params import EngineConfig, Request
from localpaged.engine.prefix_tree import BlockKey
from localpaged.engine.speculate import Drafter
from localpaged.engine.step_plan import BlockCopy, BlockMove, SequenceId


class Status(StrEnum):
    """Where a sequence stands. Whether it prefills or decodes follows from its tokens."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


NEXT = {
    Status.WAITING: {Status.RUNNING, Status.FINISHED},
    Status.RUNNING: {Status.WAITING, Status.FINISHED},
    Status.FINISHED: set[Status](),
}


class Sequence:
    """Engine thread only.

    Invariants: KV exists for exactly the first `num_computed` tokens; a token just sampled is not
    among them. The block table has just the blocks that these and the planned tokens need. The
    first `num_published` blocks are known to the prefix tree. `num_candidates` > 0 marks a beam;
    `is_paused`, that a beam has all it needs until its siblings are as far, or that a grammar is
    still being made. A token of `end_ids` ends the answer. The log probabilities of `num_scored`
    prompt tokens behind the first are told, or not asked for. `num_ahead` steps that were launched
    and are not committed compute a token of it each, for which the block table has room.
    """

    def __init__(
        self,
        request: Request,
        *,
        sequence_id: SequenceId,
        seed: int,
        block_size: int,
        branch: int = 0,
        num_candidates: int = 0,
        end_ids: frozenset[int] = frozenset(),
        matcher: Matcher | None = None,
    ) -> None:
        assert request.prompt_ids
        self.id = sequence_id
        self.request = request
        self.branch = branch
        self.seed = seed
        self.num_candidates = num_candidates
        self.end_ids = end_ids
        self.matcher = matcher
        self.tokens = list(request.prompt_ids)
        self.num_prompt = len(self.tokens)
        self.num_computed = 0
        self.num_published = 0
        self.num_ahead = 0
        # the first token that is told follows one that must be computed
        self.num_scored = max(0, request.prompt_logprobs_from - 1)
        self.num_cached_at_start: int | None = None
        self.is_prompt_counted = False
        self.block_table: list[int] = []
        self.pending_copy: BlockCopy | None = None
        self.swap_ins: list[BlockMove] = []
        self.has_failed = False
        self.is_paused = False
        self.drafter = Drafter()
        self.status = Status.WAITING
        self._block_size = block_size
        self._keys: list[BlockKey] = []

    @property
    def chat(self) -> str:
        """Whose it is where chats share something out; a request without a chat is its own."""
        return self.request.chat_id or self.request.id

    @property
    def num_todo(self) -> int:
        """Tokens without KV; one while decoding, more while a prompt is read."""
        return len(self.tokens) - self.num_computed

    @property
    def is_decoding(self) -> bool:
        """Whether only the last token is left to compute and an answer has begun."""
        return self.num_todo == 1 and self.num_generated > 0

    @property
    def num_reusable(self) -> int:
        """Leading tokens whose KV may be another's: logits follow from what is computed alone."""
        is_scored = self.num_scored >= self.num_prompt - 1
        if self.request.prompt_logprobs is None or is_scored:
            return len(self.tokens) - 1
        return self.num_scored

    @property
    def may_draft(self) -> bool:
        """Whether guesses can be checked: one draw a step, and no grammar to be followed."""
        is_simple = self.matcher is None and self.num_candidates == 0
        return self.request.speculation and is_simple and self.is_decoding

    @property
    def num_generated(self) -> int:
        """Tokens of the answer so far."""
        return len(self.tokens) - self.num_prompt

    def guess(self, price: float, config: EngineConfig) -> tuple[int, ...]:
        """Return what may follow while decoding, as far as it is worth `price` tokens each."""
        room = config.context_length - len(self.tokens)
        max_tokens = self.request.sampling.max_tokens
        if max_tokens is not None:
            room = min(room, max_tokens - self.num_generated)
        # The step's own token is one of them.
        limit = min(config.max_drafts, room - 1)
        return self.drafter.propose(self.tokens, limit=limit, price=price)

    def begin_grammar(self, matcher: Matcher) -> None:
        """Follow a grammar from its start; what waited for it may run."""
        self.matcher = matcher
        self.is_paused = False

    def append(self, token_id: int) -> None:
        """Take the token that was drawn; a grammar follows it."""
        self.tokens.append(token_id)
        if self.matcher is not None:
            self.matcher.take(token_id)

    def keys(self, num_tokens: int) -> list[BlockKey]:
        """Return the keys of the full blocks among the first `num_tokens` tokens."""
        size = self._block_size
        count = num_tokens // size
        for i in range(len(self._keys), count):
            self._keys.append(tuple(self.tokens[i * size : (i + 1) * size]))
        return self._keys if count == len(self._keys) else self._keys[:count]

    def fork(self, *, sequence_id: SequenceId, branch: int) -> Sequence:
        """Return a waiting sequence with the same tokens, computed by nobody yet."""
        twin = Sequence(
            self.request,
            sequence_id=sequence_id,
            seed=self.seed,
            block_size=self._block_size,
            branch=branch,
            num_candidates=self.num_candidates,
            end_ids=self.end_ids,
            matcher=None if self.matcher is None else self.matcher.copy(),
        )
        twin.tokens = list(self.tokens)
        twin.num_scored = self.num_scored
        twin.num_cached_at_start = self.num_cached_at_start
        twin.is_prompt_counted = True  # a request has one prompt, however many answers
        twin._keys = list(self._keys)
        return twin

    def transition(self, to: Status) -> None:
        """Change the status; an impossible change is our bug."""
        assert to in NEXT[self.status], f"{self.id}: {self.status} -> {to}"
        self.status = to

    def check(self) -> None:
        """Recompute what must hold between two steps."""
        size = self._block_size
        assert 0 <= self.num_published * size <= self.num_computed <= len(self.tokens)
        if self.status is Status.RUNNING:
            assert len(self.block_table) == -(-(self.num_computed + self.num_ahead) // size)
        else:
            assert not self.block_table and not self.num_ahead
            assert self.pending_copy is None and not self.swap_ins
