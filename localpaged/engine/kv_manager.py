"""KVManager: joins pool and prefix tree; the only one that gives blocks to sequences."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable

from localpaged.engine.arrival import Arrival
from localpaged.engine.block_pool import BlockPool
from localpaged.engine.host_tier import HostTier
from localpaged.engine.pins import Pin, Pins
from localpaged.engine.prefix_tree import BlockKey, OnEvict, PartialMatch, PrefixTree
from localpaged.engine.sequence import Sequence
from localpaged.engine.step_plan import BlockCopy, BlockMove
from localpaged.engine.swap_pace import SwapPace
from localpaged.errors import NoRoom


class KVManager:
    """Block tables, sharing, copy-on-write, eviction. Engine thread only.

    The pool starts with `initial_blocks` and grows by `slab_blocks` up to `num_blocks`, before
    anything cached is given up. Invariants (see `check`): the count of a block is the number of
    block tables, pins and arrivals with it plus pending copies from it; a block that will be
    written is in one block table and not in the tree; who holds a block of the tree holds all above
    it, so eviction never breaks a prefix. A block that comes back from host memory is written by
    the next step like any other, and published only after it.
    """

    def __init__(
        self,
        num_blocks: int,
        *,
        block_size: int,
        initial_blocks: int | None = None,
        slab_blocks: int | None = None,
        host_blocks: int = 0,
        swap_pace: SwapPace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.block_size = block_size
        self.max_blocks = num_blocks
        self.slab_blocks = slab_blocks or num_blocks
        self.pool = BlockPool(min(initial_blocks or num_blocks, num_blocks))
        self.tree = PrefixTree(clock=clock)
        self.pins = Pins()
        self.host = HostTier(host_blocks)
        self.arrivals: list[Arrival] = []
        self._swap_pace = swap_pace
        self.num_copies = 0
        self.num_evicted = 0
        self.num_swapped_in = 0

    @property
    def num_available(self) -> int:
        """Blocks that can be had: free, cached, or not there yet."""
        return self.pool.num_free + self.pool.num_cached + self.max_blocks - self.pool.num_blocks

    def pin(self, key: str, tokens: Iterable[int], *, reserved_blocks: int) -> None:
        """Keep the full blocks of a prefix from now on; those still missing once they exist.

        A second pin of the same key takes the place of the first. Raises NoRoom, with the numbers,
        when all pins together would leave less than `reserved_blocks`; nothing changes then.
        """
        known, size = tuple(tokens), self.block_size
        keys = tuple(known[i : i + size] for i in range(0, len(known) // size * size, size))
        promised = self.pins.num_promised_with(key, keys)
        if promised + reserved_blocks > self.max_blocks:
            raise NoRoom(
                f"With this pinned, {promised:,} of {self.max_blocks:,} KV blocks would be "
                f"pinned and {self.max_blocks - promised:,} left; one full context needs "
                f"{reserved_blocks:,}.",
                hint="Unpin something, give more KV memory or use a smaller context.",
            )
        blocks = list(self.tree.match(keys, ()).blocks)
        for block in blocks:
            self.pool.share(block)
        self._release_pin(self.pins.put(key, Pin(keys, blocks)))

    def unpin(self, key: str) -> None:
        """Let a prefix be evicted again; unknown keys are ignored."""
        self._release_pin(self.pins.pop(key))

    def pin_branch(self, key: str, node_id: int, *, reserved_blocks: int) -> None:
        """Keep the prefix that ends with a branch of the tree. Raises NoRoom, as `pin` does."""
        path = self.tree.path(node_id)
        tokens = (token for block_key in path for token in block_key)
        self.pin(key, tokens, reserved_blocks=reserved_blocks)

    def evict_branch(self, node_id: int, offset: int) -> int:
        """Evict what nobody holds of a branch, from its block `offset` on, and of all below it.

        Returns how many blocks came free.
        """
        evicted = self.tree.evict_branch(node_id, offset, self._is_unused, self._on_evict())
        self._take_back(evicted)
        return len(evicted)

    def admit(self, sequence: Sequence, *, num_tokens: int, reserved_blocks: int) -> bool:
        """Match the prefix, hold what matched, and make room for `num_tokens` more, or for none.

        `reserved_blocks` must stay available to others once the whole sequence is computed.
        At least one token is always left to compute: a full hit still needs logits.
        Returns False, with nothing held, when the room cannot be had.
        """
        assert not sequence.block_table and sequence.num_computed == 0
        usable = sequence.tokens[: sequence.num_reusable]
        keys = sequence.keys(len(usable))
        user = sequence.request.chat_id
        match = self.tree.match(keys, usable[len(keys) * self.block_size :], user=user)
        slots = self._host_slots(keys, len(match.blocks))
        # A partial match holds one block more than it saves; try without it before giving up.
        for partial in (match.partial, None) if match.partial and not slots else (None,):
            self._hold(sequence, match.blocks, partial)
            missing = -(-len(sequence.tokens) // self.block_size) - len(sequence.block_table)
            is_room = missing + reserved_blocks <= self.num_available
            if is_room:
                self._fetch(sequence, slots)
            if is_room and self.extend(sequence, num_tokens=min(num_tokens, sequence.num_todo)):
                return True
            self.release(sequence)
        return False

    def extend(self, sequence: Sequence, *, num_tokens: int) -> bool:
        """Make the block table cover `num_tokens` tokens more than are computed, or nothing."""
        needed = -(-(sequence.num_computed + num_tokens) // self.block_size)
        missing = needed - len(sequence.block_table)
        if missing > self.num_available:
            return False
        self._make_room(missing)
        for _ in range(missing):
            sequence.block_table.append(self._acquire())
        return True

    def fork(self, parent: Sequence, child: Sequence) -> bool:
        """Give `child`, which has the parent's computed tokens, the parent's KV.

        Full blocks are shared; a tail block is copied before the next step, never shared, since
        both will write into it. Returns False, with nothing held, when there is no block for it.
        """
        assert not child.block_table
        size = self.block_size
        num_full, num_tail = divmod(parent.num_computed, size)
        # Only published blocks may be shared: an unpublished full block cannot exist between steps.
        assert num_full == parent.num_published
        if num_tail and self.num_available == 0:
            return False
        for block in parent.block_table[:num_full]:
            self.pool.share(block)
        child.block_table += parent.block_table[:num_full]
        child.num_computed = parent.num_computed
        child.num_published = num_full
        if num_tail:
            source = parent.block_table[num_full]
            self.pool.share(source)
            child.pending_copy = BlockCopy(source, self._acquire())
            child.block_table.append(child.pending_copy.target)
        return True

    def advance(self, sequence: Sequence, num_tokens: int) -> None:
        """Record that KV for `num_tokens` more tokens exists; publish the blocks it filled."""
        sequence.num_computed += num_tokens
        self.num_copies += sequence.pending_copy is not None
        self._settle_copy(sequence)
        self.num_swapped_in += len(sequence.swap_ins)
        self._settle_swap_ins(sequence)
        num_full = sequence.num_computed // self.block_size
        if num_full == sequence.num_published:
            return
        keys = sequence.keys(num_full * self.block_size)
        canonical = self.tree.insert(
            keys, sequence.block_table[:num_full], user=sequence.request.chat_id
        )
        for i in range(sequence.num_published, num_full):
            mine, known = sequence.block_table[i], canonical[i]
            if known == mine:
                self.pool.enter_tree(mine)
            else:
                # Another sequence computed the same prefix first: hold its block, drop ours.
                self.pool.share(known)
                self.pool.release(mine)
                sequence.block_table[i] = known
        sequence.num_published = num_full
        self._complete_pins(keys, canonical)

    def trim(self, sequence: Sequence, *, num_planned: int = 0) -> None:
        """Give back blocks beyond the computed and the planned tokens: more were planned before."""
        needed = -(-(sequence.num_computed + num_planned) // self.block_size)
        while len(sequence.block_table) > needed:
            self.pool.release(sequence.block_table.pop())

    def release(self, sequence: Sequence) -> None:
        """Give back every block; the published ones stay cached. Twice does no harm.

        What a failed sequence computed may not be finite, and is forgotten.
        """
        keys = sequence.keys(sequence.num_published * self.block_size)
        self._settle_copy(sequence)
        self._settle_swap_ins(sequence)
        # Tails first, so that the free list hands the blocks out in table order again.
        for block in reversed(sequence.block_table):
            self.pool.release(block)
        sequence.block_table.clear()
        sequence.num_computed = 0
        sequence.num_published = 0
        sequence.num_ahead = 0
        if sequence.has_failed:
            self.host.discard(keys)
            for block in self.tree.discard(keys, self._is_unused):
                self.pool.leave_tree(block)

    def begin_arrival(self, keys: Iterable[BlockKey], *, user: str) -> Arrival:
        """Hold what is here of a prefix whose rest comes from outside, until `end_arrival`."""
        arrival = Arrival(tuple(keys), user)
        arrival.blocks += self.tree.find(arrival.keys)
        for block in arrival.blocks:
            self.pool.share(block)
        self.arrivals.append(arrival)
        return arrival

    def arrive(self, arrival: Arrival, count: int, write: Callable[[list[int]], None]) -> None:
        """Have `write` fill the next blocks of a prefix, for which there must be room; publish it.

        When it raises, nothing has happened.
        """
        self._make_room(count)
        mine = [self._acquire() for _ in range(count)]
        # What was evicted and is to go to host memory is read by the next step: too late.
        self.host.drop_moves(set(mine))
        try:
            write(mine)
        except BaseException:
            for block in reversed(mine):
                self.pool.release(block)
            raise
        start, end = len(arrival.blocks), len(arrival.blocks) + count
        keys = arrival.keys[:end]
        canonical = self.tree.insert(keys, [*arrival.blocks, *mine], user=arrival.user)
        for block, known in zip(mine, canonical[start:], strict=True):
            if known == block:
                self.pool.enter_tree(block)
            else:  # it was computed meanwhile
                self.pool.share(known)
                self.pool.release(block)
            arrival.blocks.append(known)
        self._complete_pins(keys, canonical)

    def end_arrival(self, arrival: Arrival) -> None:
        """Let go of a prefix that came from outside; it stays cached."""
        self.arrivals.remove(arrival)
        for block in reversed(arrival.blocks):
            self.pool.release(block)

    def check(self, sequences: Iterable[Sequence]) -> None:
        """Recompute every invariant from the live sequences."""
        live = list(sequences)
        users = [block for sequence in live for block in sequence.block_table]
        copied = [s.pending_copy.source for s in live if s.pending_copy is not None]
        self.host.check(Counter(move.slot for s in live for move in s.swap_ins))
        self.tree.check()
        arriving = [block for arrival in self.arrivals for block in arrival.blocks]
        self.pool.check([*users, *copied, *arriving, *self.pins.users()], self.tree.blocks())
        tables = Counter(users)
        positions = {block: prefix for prefix, block in self.tree.paths()}
        for pin in self.pins.all():
            for i, block in enumerate(pin.blocks):
                assert positions[block] == pin.keys[: i + 1], "a pin holds other tokens"
        for arrival in self.arrivals:
            for i, block in enumerate(arrival.blocks):
                assert positions[block] == arrival.keys[: i + 1], "other tokens have arrived"
        for sequence in live:
            sequence.check()
            keys = sequence.keys(len(sequence.tokens))
            for i, block in enumerate(sequence.block_table):
                if i < sequence.num_published:
                    assert positions[block] == tuple(keys[: i + 1]), "the tree has other tokens"
                else:
                    assert block not in positions, "a block of the tree would be written"
                    assert tables[block] == 1, "a shared block would be written"

    def _release_pin(self, pin: Pin | None) -> None:
        for block in reversed(pin.blocks if pin else []):
            self.pool.release(block)

    def _complete_pins(
        self, keys: list[BlockKey] | tuple[BlockKey, ...], blocks: list[int]
    ) -> None:
        for pin in self.pins.incomplete():
            for i in pin.still_missing(keys):
                self.pool.share(blocks[i])
                pin.blocks.append(blocks[i])

    def _settle_copy(self, sequence: Sequence) -> None:
        if sequence.pending_copy is not None:
            self.pool.release(sequence.pending_copy.source)
            sequence.pending_copy = None

    def _settle_swap_ins(self, sequence: Sequence) -> None:
        self.host.unlock(move.slot for move in sequence.swap_ins)
        sequence.swap_ins.clear()

    def _host_slots(self, keys: list[BlockKey], start: int) -> list[int]:
        """Return where host memory goes on after `start` blocks, if it is worth fetching."""
        slots = self.host.match(keys, start)
        if slots and self._swap_pace is not None and not self._swap_pace.should_fetch():
            return []
        return slots

    def _fetch(self, sequence: Sequence, slots: list[int]) -> None:
        """Have the next step bring blocks back from host memory, for which there is room."""
        # Locked first: making room may need slots of host memory, too.
        self.host.lock(slots)
        self._make_room(len(slots))
        sequence.swap_ins = [BlockMove(self._acquire(), slot) for slot in slots]
        sequence.block_table += [move.block for move in sequence.swap_ins]
        sequence.num_computed += len(slots) * self.block_size

    def _hold(
        self, sequence: Sequence, blocks: tuple[int, ...], partial: PartialMatch | None
    ) -> None:
        for block in blocks:
            self.pool.share(block)
        sequence.block_table += blocks
        sequence.num_computed = len(blocks) * self.block_size
        sequence.num_published = len(blocks)
        if partial is None:
            return
        self.pool.share(partial.block)
        if self.num_available == 0:
            self.pool.release(partial.block)
            return
        # The target is ours alone: what follows the common tokens is written into the copy.
        sequence.pending_copy = BlockCopy(partial.block, self._acquire())
        sequence.block_table.append(sequence.pending_copy.target)
        sequence.num_computed += partial.num_tokens

    def _acquire(self) -> int:
        self._make_room(1)
        block = self.pool.acquire()
        assert block is not None, "free and cached blocks were counted wrongly"
        return block

    def _make_room(self, count: int) -> None:
        """Have `count` free blocks, as far as there are so many: grow, then evict."""
        while self.pool.num_free < count and self.pool.num_blocks < self.max_blocks:
            self.pool.grow(min(self.slab_blocks, self.max_blocks - self.pool.num_blocks))
        missing = count - self.pool.num_free
        if missing <= 0:
            return
        self._take_back(self.tree.evict(missing, self._is_unused, self._on_evict()))

    def _is_unused(self, block: int) -> bool:
        return self.pool.refs(block) == 0

    def _on_evict(self) -> OnEvict | None:
        is_kept = self._swap_pace is not None and self._swap_pace.should_keep()
        return self.host.store if is_kept else None

    def _take_back(self, evicted: Iterable[int]) -> None:
        for block in evicted:
            self.pool.leave_tree(block)
            self.num_evicted += 1
