"""One cell a message: its lines at a width, made once and kept until the text or width changes."""

from __future__ import annotations

from collections.abc import Sequence

from localpaged.plain_text import visible
from localpaged.store.rows import TurnStatus
from localpaged.tui.figures import grouped
from localpaged.tui.glyphs import Glyphs
from localpaged.tui.keys import key_of
from localpaged.tui.labels import with_file_labels
from localpaged.tui.markdown.line import BLANK, Line, Role, Run, indent
from localpaged.tui.markdown.wrap import TAB_CELLS, wrap_runs
from localpaged.tui.session import Answer, Question
from localpaged.tui.transcript.status import Moment, status_runs, version_runs
from localpaged.tui.transcript.thought_fold import Folds, ThoughtFold

GUTTER = 2
INTRO = "Every answer is computed on this machine, several at the same time."
INTRO_KEYS = (
    ("new_chat", "another chat, while this one is being answered"),
    ("switch_chat", "go to a chat"),
    ("stop", "stop an answer; its text stays and can be continued"),
    ("compare", "several answers to one prompt, side by side"),
    ("blocks", "KV memory, block by block"),
    ("browse", "search and tidy all chats"),
    ("help", "all keys and commands"),
)
INTRO_KEY_CELLS = 6
NOT_SHOWN = "earlier messages are not shown to the model"
FOLDED_LINES = 24
SHOWN_OF_FOLDED = 12
FOLD_CHARS = 4_000


class QuestionCell:
    """A user's message or the system prompt: plain text, a long one folded."""

    def __init__(self, question: Question, glyphs: Glyphs, width: int) -> None:
        self.question = question
        self.is_folded = True
        self._glyphs = glyphs
        self._lines: list[Line] = []
        self.resize(width)

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> Line:
        return self._lines[index]

    @property
    def source(self) -> str:
        """What copying the message gives."""
        return self.question.text

    def resize(self, width: int) -> None:
        """Lay the text out in `width` cells."""
        role = Role.DIM if self.question.is_system else Role.USER
        sign = "system" if self.question.is_system else self._glyphs.prompt
        first, rest = Run(f"{sign} ", Role.ACCENT), Run(" " * (len(sign) + 1))
        text, hidden_lines = self._shown_text()
        safe = visible(text, multiline=True).expandtabs(TAB_CELLS)
        lines = wrap_runs([Run(safe, role)], max(1, width - len(first.text)))
        if hidden_lines:
            more = f"{self._glyphs.ellipsis} {grouped(hidden_lines)} more lines, click to show"
            lines.append(Line((), (Run(more, Role.DIM),)))
        self._lines = [*self._view_line(width), *indent(lines, first, rest)]
        if version := version_runs(self.question.siblings, self._glyphs):
            self._lines.append(Line((rest, *version), ()))

    def _view_line(self, width: int) -> list[Line]:
        """The line above the first message that the model is shown."""
        if not self.question.is_view_start:
            return []
        rule = self._glyphs.rule
        text = f" {NOT_SHOWN} "[: max(0, width)]
        left = max(0, width - len(text)) // 2
        right = max(0, width - len(text) - left)
        runs = (Run(rule * left, Role.RULE), Run(text, Role.WARNING), Run(rule * right, Role.RULE))
        return [Line((), runs, glue=""), BLANK]

    def toggle_fold(self, width: int) -> None:
        """Show all of a folded message, or fold it again."""
        self.is_folded = not self.is_folded
        self.resize(width)

    def _shown_text(self) -> tuple[str, int]:
        text = self.question.text
        num_lines = text.count("\n") + 1
        is_long = num_lines > FOLDED_LINES or len(text) > FOLD_CHARS
        if not (self.is_folded and is_long):
            return text, 0
        text = with_file_labels(text)
        if text.count("\n") < FOLDED_LINES and len(text) <= FOLD_CHARS:
            return text, num_lines - text.count("\n") - 1
        shown = "\n".join(text[:FOLD_CHARS].split("\n")[:SHOWN_OF_FOLDED])
        return shown, max(1, num_lines - shown.count("\n") - 1)


class AnswerCell:
    """An answer: its reasoning, Markdown that may still grow, and a status line.

    Invariant: the Markdown has the answer's text up to `_fed`, but for what is reasoning.
    """

    def __init__(self, answer: Answer, glyphs: Glyphs, width: int, folds: Folds) -> None:
        self.answer = answer
        self._glyphs = glyphs
        self._width = width
        self._fold = ThoughtFold(answer, glyphs, width, folds)
        # the first picture has no answer, and does not wait for a parser of Markdown
        from localpaged.tui.markdown.growing import GrowingMarkdown

        self._growing = GrowingMarkdown(_text_width(width))
        self._fed = 0
        self.is_finished = False
        self._status: list[Line] = []
        self._moment = Moment()
        self.update(self._moment)

    def __len__(self) -> int:
        return self._num_above + len(self._growing) + len(self._status)

    def __getitem__(self, index: int) -> Line:
        above = self._num_above
        if index < above:
            return self._fold[index] if index < len(self._fold) else BLANK
        index -= above
        body = len(self._growing)
        if index < body:
            return self._growing[index].indented(Run(" " * GUTTER))
        return self._status[index - body]

    @property
    def source(self) -> str:
        """What copying the answer gives: the exact text of the model, without its reasoning."""
        return self.answer.body

    @property
    def _num_above(self) -> int:
        """Lines above the answer's own: its reasoning, and a blank one between."""
        fold = len(self._fold)
        return fold + bool(fold and len(self._growing))

    def toggle_thought(self) -> bool:
        """Unfold or fold the reasoning; False when there is none."""
        if not self._fold.toggle():
            return False
        self._fold.update()
        return True

    def has_thought_at(self, index: int) -> bool:
        """Whether a line of the cell is the head of its reasoning."""
        return index == 0 and len(self._fold) > 0

    def refold(self) -> None:
        """The user's choice for all reasoning is another one."""
        self._fold.update()

    def update(self, moment: Moment) -> int:
        """Take what the answer gained; return the first of the cell's lines that may differ."""
        text, thought = self.answer.text, self.answer.thought
        lines_above = self._num_above
        first_changed = self._fold.update()
        if thought is not None:
            self._fed = max(self._fed, len(text) if thought.after is None else thought.after)
        is_begun = len(self._growing) > 0
        if self._num_above == lines_above and is_begun:
            first_changed = lines_above + self._growing.num_settled_lines
        if len(text) > self._fed:
            self._growing.feed(text[self._fed :])
            self._fed = len(text)
        if not self.answer.is_open and not self.is_finished:
            self._growing.finish()
            self.is_finished = True
            first_changed = 0
        self._status = self._status_lines(moment)
        return first_changed

    def resize(self, width: int) -> None:
        """Lay everything out in `width` cells."""
        self._width = width
        self._fold.resize(width)
        self._growing.resize(_text_width(width))
        self._status = self._status_lines(self._moment)

    def refresh_status(self, moment: Moment) -> None:
        """Draw the status line again."""
        self._status = self._status_lines(moment)

    def _status_lines(self, moment: Moment) -> list[Line]:
        self._moment = moment
        gutter = Run(" " * GUTTER)
        room = _text_width(self._width)
        lines = [
            Line((), line.runs).indented(gutter)
            for line in wrap_runs(status_runs(self.answer, self._glyphs, moment, cells=room), room)
            if line.runs
        ]
        if self.answer.status is TurnStatus.ERROR and self.answer.hint:
            hint = Run(visible(self.answer.hint), Role.DIM)
            lines += [
                line.indented(Run(" " * GUTTER * 2)) for line in wrap_runs([hint], room - GUTTER)
            ]
        has_text = len(self._growing) or len(self._fold)
        return [BLANK, *lines] if has_text and lines else lines


class EarlierCell:
    """The row above the window: how many messages are not laid out."""

    def __init__(self, num_messages: int, glyphs: Glyphs) -> None:
        self.num_messages = num_messages
        self._glyphs = glyphs

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> Line:
        text = f"{self._glyphs.earlier} {grouped(self.num_messages)} earlier messages"
        return Line((), (Run(" " * GUTTER), Run(text, Role.DIM)))

    source = ""

    def resize(self, width: int) -> None:
        """One line at any width."""


class IntroCell:
    """What an empty chat shows: what can be done here, in a few lines."""

    source = ""

    def __init__(self, width: int) -> None:
        self._lines: list[Line] = []
        self.resize(width)

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> Line:
        return self._lines[index]

    def resize(self, width: int) -> None:
        """Wrap the lines at `width`."""
        gutter = Run(" " * GUTTER)
        room = _text_width(width)
        lines = [*wrap_runs([Run(INTRO, Role.TEXT)], room), BLANK]
        for action_id, text in INTRO_KEYS:
            rest = wrap_runs([Run(text, Role.DIM)], max(1, room - INTRO_KEY_CELLS))
            key = key_of(action_id)
            lines += indent(
                rest, Run(f"{key} ".ljust(INTRO_KEY_CELLS), Role.ACCENT), Run(" " * INTRO_KEY_CELLS)
            )
        self._lines = [Line((), line.prefix + line.runs).indented(gutter) for line in lines]


Cell = QuestionCell | AnswerCell | EarlierCell | IntroCell


def selected_text(lines: Sequence[Line], first: int, last: int) -> str:
    """Join lines as their source has them; the first from character `first`, the last to `last`.

    A `last` of -1 takes the last line whole. Decoration is left out.
    """
    pieces: list[str] = []
    for number, line in enumerate(lines):
        plain = line.plain
        end = len(plain) if number < len(lines) - 1 or last < 0 else last
        start = first if number == 0 else 0
        if number:
            pieces.append(line.glue)
        pieces.append(plain[start:end])
    return "".join(pieces)


def _text_width(width: int) -> int:
    return max(1, width - GUTTER)
