"""What is known of the block or the branch at the cursor, as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from localpaged.chat.memory import BRANCH_PIN, CHAT_PIN, SYSTEM_PIN
from localpaged.engine.inspection import (
    MAX_REFS,
    BlockState,
    BlockTokens,
    Inspection,
    TreeNode,
)
from localpaged.plain_text import visible
from localpaged.tui.figures import grouped
from localpaged.tui.markdown.line import STRONG, Line, Role, Run
from localpaged.tui.markdown.wrap import wrap_runs
from localpaged.tui.memory.headlines import blocks_and_bytes
from localpaged.tui.memory.tree_rows import TreeRow
from localpaged.tui.memory.words import STATE_WORDS, age_words

MAX_CHATS = 6
TitleOf = Callable[[str], str]


def block_lines(
    seen: Inspection,
    block: int,
    tokens: BlockTokens | None,
    text: str,
    *,
    title_of: TitleOf,
    cells: int,
) -> list[Line]:
    """Return what a block is, who uses it, and the text whose KV is in it."""
    if not 0 <= block < seen.num_blocks:
        return []
    state = BlockState(seen.states[block])
    word = "cached, would go first" if seen.going[block] else STATE_WORDS[state]
    lines = [_title(f"Block {grouped(block)}", word)]
    if state is BlockState.FREE:
        return lines
    place = seen.place(block)
    lines += wrap_runs([Run(_users_of_block(seen, block, place, title_of), Role.TEXT)], cells)
    where = _positions(tokens)
    age = f"last used {age_words(seen.ages[block])}"
    lines.append(_line(f"{where}, {age}" if where else age, Role.DIM))
    if place is not None:
        node, offset = place
        number = f"{grouped(offset + 1)} of {grouped(len(node.blocks))} in its branch"
        pins = "".join(f", pinned with {_pin_word(key, title_of)}" for key in node.pins[:2])
        lines += wrap_runs([Run(number + pins, Role.DIM)], cells)
    return [*lines, *_quoted(text, cells)]


def branch_lines(
    seen: Inspection, row: TreeRow, text: str, *, title_of: TitleOf, cells: int
) -> list[Line]:
    """Return what a branch costs, who uses it, what it saves, and how its text begins."""
    size = seen.block_size
    first = row.top.start_blocks * size
    last = first + row.num_blocks * size - 1
    lines = [
        _title(
            blocks_and_bytes(row.num_blocks, seen), f"tokens {grouped(first)} to {grouped(last)}"
        )
    ]
    chats = _titles(row.top.chats, title_of)
    if chats:
        lines += wrap_runs([Run(f"used by {chats}", Role.TEXT)], cells)
    held = f"held by {grouped(row.top.refs)} now" if row.top.refs else "held by nobody"
    lines += wrap_runs(
        [Run(f"{held}, {grouped(row.num_cached)} of its blocks can be evicted", Role.DIM)], cells
    )
    if row.saved_blocks:
        saved = blocks_and_bytes(row.saved_blocks, seen)
        lines.append(_line(f"sharing it saves {saved}", Role.SUCCESS))
    if row.below_blocks:
        below = blocks_and_bytes(row.below_blocks, seen)
        lines.append(_line(f"{below} go on from it", Role.DIM))
    if row.pins:
        pins = ", ".join(_pin_word(key, title_of) for key in row.pins[:3])
        lines += wrap_runs([Run(f"pinned with {pins}", Role.WARNING)], cells)
    if not row.top.refs:
        lines.append(_line(f"last used {age_words(row.top.age)}", Role.DIM))
    return [*lines, *_quoted(text, cells)]


def group_line(seen: Inspection, block: int, per_cell: int) -> Line:
    """Return what the cell of several blocks has in it."""
    first = block // per_cell * per_cell
    states = Counter(seen.states[first : first + per_cell])
    told = ", ".join(
        f"{count} {STATE_WORDS[BlockState(state)].split(',')[0]}"
        for state, count in states.most_common()
    )
    last = min(first + per_cell, seen.num_blocks) - 1
    return _line(f"in one cell: {grouped(first)} to {grouped(last)}, {told}", Role.FAINT)


def _users_of_block(
    seen: Inspection, block: int, place: tuple[TreeNode, int] | None, title_of: TitleOf
) -> str:
    refs = seen.refs[block]
    count = f"{refs} or more" if refs == MAX_REFS else grouped(refs)
    holding = tuple(table.chat_id for table in seen.holders(block))
    holders = _titles(holding, title_of)
    if seen.states[block] == BlockState.PINNED:
        holders = f"{holders}, a pin" if holders else "a pin"
    held = f"held by {count}: {holders}" if refs else "held by nobody now"
    chats = place[0].chats if place is not None else ()
    others = _titles(tuple(chat for chat in chats if chat not in holding), title_of)
    return f"{held}; kept for {others}" if others else held


def _titles(chats: tuple[str, ...], title_of: TitleOf) -> str:
    counts = Counter(chat for chat in chats if chat)
    names = [
        visible(title_of(chat)) + (f" ×{count}" if count > 1 else "")
        for chat, count in list(counts.items())[:MAX_CHATS]
    ]
    more = len(counts) - MAX_CHATS
    return ", ".join(names) + (f" and {more} more" if more > 0 else "")


def _pin_word(key: str, title_of: TitleOf) -> str:
    if key.startswith(BRANCH_PIN):
        return "a branch"
    for prefix, word in ((CHAT_PIN, "“{}”"), (SYSTEM_PIN, "the system text of “{}”")):
        if key.startswith(prefix):
            return word.format(visible(title_of(key.removeprefix(prefix))))
    return visible(key)


def _positions(tokens: BlockTokens | None) -> str:
    if tokens is None or not tokens.token_ids:
        return ""
    last = tokens.position + len(tokens.token_ids) - 1
    return f"tokens {grouped(tokens.position)} to {grouped(last)}"


def _quoted(text: str, cells: int) -> list[Line]:
    return wrap_runs([Run(f"“{visible(text)}”", Role.QUOTE)], cells) if text else []


def _title(title: str, note: str) -> Line:
    return Line((Run(title, Role.USER, STRONG), Run(f"  {note}", Role.DIM)))


def _line(text: str, role: Role) -> Line:
    return Line((Run(text, role),))
