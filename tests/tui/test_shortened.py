"""What is cut fits, and has its mark right behind what is left."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from localpaged.tui.markdown.line import Run
from localpaged.tui.paint import cut_runs
from localpaged.tui.shortened import shortened

TEXTS = ("lighthouse keeper", "日本語で富士山について", "a日b本c語d", "🗻🗻🗻🗻🗻", "é̂e漢字 e e")


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("mark", ["…", "..", ""])
@pytest.mark.parametrize("cells", range(1, 9))
def test_what_is_cut_fits_and_no_half_character_leaves_a_blank(text, mark, cells):
    if cell_len(mark) > cells or cell_len(text) <= cells:
        return
    cut = shortened(text, cells, mark)
    assert cells - 1 <= cell_len(cut) <= cells
    assert cut.endswith(mark) and text.startswith(cut.removesuffix(mark))


def test_a_wide_title_has_its_mark_right_behind_it():
    (run,) = cut_runs([Run("日本語で富士山")], 6)
    assert run.text == "日本…"
