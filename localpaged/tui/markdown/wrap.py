"""Where text breaks into rows: at spaces, between wide characters, inside words that are too long.

Widths are terminal cells. What wrapping swallows (a space at a row's end) becomes the next row's
glue, so that a copied selection reads like the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from rich.cells import cell_len, chop_cells

from localpaged.tui.markdown.line import Line, Role, Run

TAB_CELLS = 4
_WIDE = (
    "\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f"
    "\uff00-\uff60\uffe0-\uffe6\U0001f300-\U0001f64f\U0001f900-\U0001f9ff\U00020000-\U0003fffd"
)
# closing punctuation stays on the row of the character it follows
_CLOSING = "\u3001\u3002\uff0c\uff0e\uff09\u300d\u300f\u3011\uff01\uff1f\uff1a\uff1b"


@cache
def _word() -> re.Pattern[str]:
    # not when the module is imported: the first picture would wait for it
    return re.compile(rf"\s+|[{_WIDE}][{_CLOSING}]*|[^\s{_WIDE}]+")


def wrap_runs(
    runs: Sequence[Run], width: int, *, glue: str = "\n", fill: Role | None = None
) -> list[Line]:
    """Wrap styled text at words to `width` cells; newlines in it break too."""
    text = "".join(run.text for run in runs)
    return _cut(runs, text, _word_rows(text, max(1, width)), glue=glue, fill=fill)


def fold_runs(
    runs: Sequence[Run], width: int, *, glue: str = "\n", fill: Role | None = None
) -> list[Line]:
    """Break styled text wherever `width` cells are full: for code, where spaces carry meaning."""
    text = "".join(run.text for run in runs)
    return _cut(runs, text, _fold_rows(text, 0, max(1, width)), glue=glue, fill=fill)


def _word_rows(text: str, width: int) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    start = 0
    for paragraph in text.split("\n"):
        if len(paragraph) <= width and paragraph.isascii():
            rows.append((start, start + len(paragraph.rstrip())))
        else:
            rows.extend(_paragraph_rows(paragraph, start, width))
        start += len(paragraph) + 1
    return rows


def _paragraph_rows(text: str, base: int, width: int) -> Iterator[tuple[int, int]]:
    row_start = row_end = 0
    used = 0
    for match in _word().finditer(text):
        word = match.group()
        cells = len(word) if word.isascii() else cell_len(word)
        gap = match.start() - row_end
        if word.isspace():
            if match.start() == 0:
                used, row_end = min(cells, width - 1), min(match.end(), width - 1)
            continue
        if used + gap + cells <= width:
            used, row_end = used + gap + cells, match.end()
            continue
        if row_end > row_start:
            yield base + row_start, base + row_end
        row_start, row_end, used = match.start(), match.end(), cells
        if cells > width:
            *full, (last_start, last_end) = _fold_rows(word, match.start(), width)
            yield from ((base + start, base + end) for start, end in full)
            row_start, row_end = last_start, last_end
            used = cell_len(text[last_start:last_end])
    yield base + row_start, base + row_end


def _fold_rows(text: str, base: int, width: int) -> list[tuple[int, int]]:
    if text.isascii():
        cuts = [*range(0, max(1, len(text)), width), len(text)]
        return [(base + cuts[i], base + cuts[i + 1]) for i in range(len(cuts) - 1)]
    rows: list[tuple[int, int]] = []
    for piece in chop_cells(text, width):
        rows.append((base, base + len(piece)))
        base += len(piece)
    return rows or [(base, base)]


def _cut(
    runs: Sequence[Run],
    text: str,
    rows: Sequence[tuple[int, int]],
    *,
    glue: str,
    fill: Role | None,
) -> list[Line]:
    lines: list[Line] = []
    index, run_start = 0, 0
    previous_end: int | None = None
    for start, end in rows:
        pieces: list[Run] = []
        while index < len(runs):
            run = runs[index]
            run_end = run_start + len(run.text)
            if run_end <= start:
                index, run_start = index + 1, run_end
                continue
            if run_start >= end:
                break
            piece = run.text[max(0, start - run_start) : end - run_start]
            if piece:
                pieces.append(run if len(piece) == len(run.text) else run._replace(text=piece))
            if run_end > end:
                break
            index, run_start = index + 1, run_end
        lines.append(
            Line(
                tuple(pieces), (), glue if previous_end is None else text[previous_end:start], fill
            )
        )
        previous_end = end
    return lines
