"""The reasoning above an answer: open while it is written, then one line that can be unfolded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged.chat.thought import Thought, reasoning_of
from localpaged.tui.figures import grouped
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.markdown.line import Line, Role, Run
from localpaged.tui.session import Answer

if TYPE_CHECKING:
    from localpaged.tui.markdown.growing import GrowingMarkdown

GUTTER = Run("  ")
BAR = Run("▎ ", Role.RULE)
BAR_CELLS = 2
# of a thought that is over no more is laid out at once: a megabyte would be a visible pause
SHOWN_CHARS = 60_000


class Folds:
    """Whether thoughts that are over are shown, one choice for all. UI thread only.

    `version` changes with the choice. `keeps_open`: the user has scrolled back and may be reading
    the thought that ends now.
    """

    def __init__(self, *, is_shown: bool = False) -> None:
        self.is_shown = is_shown
        self.version = 0
        self.keeps_open = False

    def toggle(self) -> None:
        """Show what is folded, fold what is shown."""
        self.is_shown = not self.is_shown
        self.version += 1


class ThoughtFold:
    """The lines of one answer's reasoning; none where there is none. UI thread only.

    Invariant: `_body` is there exactly while the thought is open, and has the answer's text up to
    `_fed` of it, or, when the thought is over, all that is shown of it.
    """

    def __init__(self, answer: Answer, glyphs: Glyphs, width: int, folds: Folds) -> None:
        self._answer = answer
        self._glyphs = glyphs
        self._width = width
        self._folds = folds
        self._version = folds.version
        self._own_choice: bool | None = None
        self._body: GrowingMarkdown | None = None
        self._fed = 0
        self._is_over = False
        self._head: list[Line] = []
        self._more: list[Line] = []

    def __len__(self) -> int:
        body = len(self._body) if self._body is not None else 0
        return len(self._head) + body + len(self._more)

    def __getitem__(self, index: int) -> Line:
        index -= len(self._head)
        if index < 0:
            return self._head[0]
        if self._body is not None and index < len(self._body):
            line = _dimmed(self._body[index]).indented(BAR)
        else:
            line = self._more[0]
        return line.indented(GUTTER)

    @property
    def is_open(self) -> bool:
        """Whether the thought can be read: as the user chose, else while it is not over."""
        if self._own_choice is not None:
            return self._own_choice
        thought = self._answer.thought
        return self._folds.is_shown or (thought is not None and thought.end is None)

    def toggle(self) -> bool:
        """Unfold or fold this one; return whether there is anything to unfold."""
        if not self._head:
            return False
        self._own_choice = not self.is_open
        return True

    def update(self) -> int:
        """Take what the thought gained; return the first of its lines that may differ.

        The head may differ as well: it counts.
        """
        thought = self._answer.thought
        if thought is None:
            return 0
        before = len(self)
        if self._version != self._folds.version:
            self._version = self._folds.version
            self._own_choice = None
        is_over = thought.end is not None or not self._answer.is_open
        if is_over and not self._is_over and self._body is not None and self._folds.keeps_open:
            self._own_choice = True
        first = self._update_body(thought, is_over=is_over)
        self._is_over = is_over
        has_text = self._body is not None or bool(reasoning_of(self._answer.text, thought))
        self._head = [self._head_line(thought)] if has_text or not is_over else []
        return 0 if len(self) < before else first

    def resize(self, width: int) -> None:
        """Lay everything out in `width` cells."""
        self._width = width
        if self._body is not None:
            self._body.resize(self._room)

    @property
    def _room(self) -> int:
        return max(1, self._width - len(GUTTER.text) - BAR_CELLS)

    def _new_body(self) -> GrowingMarkdown:
        # see AnswerCell
        from localpaged.tui.markdown.growing import GrowingMarkdown

        return GrowingMarkdown(self._room)

    def _update_body(self, thought: Thought, *, is_over: bool) -> int:
        if not self.is_open:
            self._body, self._more = None, []
            return 0
        if is_over:
            if self._body is None or not self._is_over:
                self._show_all(thought)
            return 0
        if self._body is None:
            self._body = self._new_body()
            self._fed = thought.start
        settled = len(self._head) + self._body.num_settled_lines
        new = self._answer.text[self._fed :]
        self._fed += len(new)
        if not self._body.text:
            new = new.lstrip()
        if new:
            self._body.feed(new)
        return min(settled, 0 if not self._head else settled)

    def _show_all(self, thought: Thought) -> None:
        text = reasoning_of(self._answer.text, thought)
        self._body = self._new_body() if text else None
        if self._body is not None:
            self._body.feed(text[:SHOWN_CHARS])
            self._body.finish()
        hidden = len(text) - SHOWN_CHARS
        more = f"{self._glyphs.ellipsis} {grouped(hidden)} more characters, copied as a whole"
        self._more = [Line((), (BAR, Run(more, Role.FAINT)))] if hidden > 0 else []

    def _head_line(self, thought: Thought) -> Line:
        glyphs = self._glyphs
        sign = glyphs.unfolded if self.is_open else glyphs.folded
        is_going_on = thought.end is None and self._answer.is_open
        words = "thinking" if is_going_on else "thought"
        if thought.seconds is not None and not is_going_on:
            words += f" for {_seconds(thought.seconds)}"
        tokens = self._answer.token_count if is_going_on else thought.tokens
        parts = [words]
        if tokens:
            parts.append(f"{grouped(tokens)} tok")
        if thought.end is None and not is_going_on:
            parts.append("not finished")
        text = f" {glyphs.dot} ".join(parts)
        return Line((), (GUTTER, Run(f"{sign} ", Role.ACCENT), Run(text, Role.DIM)))


def _seconds(value: float) -> str:
    """4.21 -> 4.2 s, 12.3 -> 12 s."""
    return f"{value:.1f} s" if value < 9.95 else f"{value:.0f} s"


def _dimmed(line: Line) -> Line:
    runs = (run._replace(role=Role.DIM) if run.role is Role.TEXT else run for run in line.runs)
    return line._replace(runs=tuple(runs))
