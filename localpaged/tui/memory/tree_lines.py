"""A row of the prefix tree as a line: guides, label, and its figures in columns at the right."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from localpaged.plain_text import visible
from localpaged.tui.figures import grouped
from localpaged.tui.glyphs import UNICODE, Glyphs
from localpaged.tui.markdown.line import Line, Role, Run
from localpaged.tui.memory.tree_rows import BranchRow
from localpaged.tui.shortened import shortened

MAX_GUIDES = 12
"""Deeper rows are drawn at this depth: the label matters more than the ladder."""
_ASCII_SIGNS = str.maketrans({"“": '"', "”": '"', "…": "...", "×": "x"})
BLOCK_CELLS, USER_CELLS, SAVED_CELLS = 8, 6, 11


def tree_line(row: BranchRow, label: str, glyphs: Glyphs, cells: int) -> Line:
    """Return the line of a row in `cells`; what does not fit is cut out of its label."""
    blocks = f"{grouped(row.num_blocks)} b"
    users = signs_of(f"×{row.users}", glyphs)
    saved = f"saves {grouped(row.saved_blocks)}" if row.saved_blocks else ""
    marks = [
        Run(" P" if row.is_pinned else "  ", Role.WARNING),
        Run(f"{blocks:>{BLOCK_CELLS}}", Role.TEXT if row.refs else Role.DIM),
        Run(f"{users if row.users > 1 else '':>{USER_CELLS}}", Role.ACCENT),
        Run(f"{saved:>{SAVED_CELLS}}", Role.SUCCESS),
    ]
    if cells < 50:
        del marks[-1]
    guides = _guides(row.guides, glyphs)
    room = max(1, cells - cell_len(guides) - sum(cell_len(mark.text) for mark in marks) - 1)
    text = signs_of(visible(label), glyphs)
    if cell_len(text) > room:
        text = shortened(text, room, glyphs.ellipsis)
    role = Role.USER if row.is_new_chat else Role.DIM
    return Line((), (Run(guides, Role.FAINT), Run(set_cell_size(text, room), role), *marks))


def signs_of(text: str, glyphs: Glyphs) -> str:
    """Return text with the signs of this screen as the terminal can show them."""
    return text if glyphs is UNICODE else text.translate(_ASCII_SIGNS)


def _guides(levels: tuple[bool, ...], glyphs: Glyphs) -> str:
    line, turn, last, none = ("│ ", "├ ", "└ ", "  ") if glyphs is UNICODE else (
        "| ", "+ ", "` ", "  "
    )  # fmt: skip
    # What hangs from nothing needs no guide.
    below = levels[1:][-MAX_GUIDES:]
    if not below:
        return ""
    above = "".join(line if goes_on else none for goes_on in below[:-1])
    return above + (turn if below[-1] else last)
