"""Where the user writes. Enter sends, and only Enter: no paste ever does.

Text that the input widget could not show exactly or quickly (long pastes, control characters) is
held aside and stands in the prompt as a label such as `[pasted 312 lines]`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from textual.message import Message

from localpaged.plain_text import visible
from localpaged.tui.session import Draft
from localpaged.tui.widgets.text_box import TextBox

if TYPE_CHECKING:
    from rich.text import Text
    from textual import events

MAX_PLAIN_PASTE_CHARS = 2_000
MAX_PLAIN_PASTE_LINES = 20
HISTORY_MESSAGES = 100
NEWLINE_KEYS = frozenset({"ctrl+j", "shift+enter", "alt+enter", "ctrl+enter"})
_LABEL = re.compile(r"\[pasted [\d,]+ (?:lines|characters)(?: #\d+)?\]")


class Prompt(TextBox):
    """The input. UI thread only.

    Invariant: every label in `_pastes` stands for exactly the text that was pasted.
    """

    HISTORY_LIMIT: ClassVar[int] = HISTORY_MESSAGES

    class Submitted(Message):
        """The user sent `draft`, which is no longer in the prompt."""

        def __init__(self, draft: Draft) -> None:
            super().__init__()
            self.draft = draft

    class PageAsked(Message):
        """The user wants to scroll the transcript from the prompt: by pages, or to its end."""

        def __init__(self, pages: int | None) -> None:
            super().__init__()
            self.pages = pages

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(
            id=id,
            compact=True,
            soft_wrap=True,
            show_line_numbers=False,
            highlight_cursor_line=False,
            tab_behavior="focus",
        )
        self._pastes: dict[str, str] = {}
        self._sent: list[str] = []
        self._recalled: int | None = None
        self._stashed = Draft()

    @property
    def draft(self) -> Draft:
        """What is typed, with what its labels stand for."""
        text = self.text
        return Draft(text, {k: v for k, v in self._pastes.items() if k in text})

    def load(self, draft: Draft) -> None:
        """Show a draft, the cursor at its end."""
        self._recalled = None
        self._pastes = dict(draft.pastes)
        text = draft.text
        if not draft.pastes and not _is_plain(text):
            text = self._label(text)
        self.text = text
        self.move_cursor(self.document.end)

    def remember(self, sent: list[str]) -> None:
        """Set what Up recalls, oldest first."""
        self._sent = sent[-HISTORY_MESSAGES:]
        self._recalled = None

    def add_sent(self, text: str) -> None:
        """Up recalls this message too."""
        self.remember([*self._sent, text])

    def give_back(self, draft: Draft) -> None:
        """Show again what could not be sent, before what was typed since."""
        since = self.draft
        text = f"{draft.text}\n{since.text}" if since.text else draft.text
        self.load(Draft(text, {**draft.pastes, **since.pastes}))

    def put_aside(self) -> None:
        """Empty the prompt; Up recalls what was in it."""
        text = self.draft.full
        self.load(Draft())
        self.add_sent(text)

    def say(self, hint: str) -> None:
        """Set the text of the empty prompt."""
        if self.placeholder != hint:
            self.placeholder = hint

    def get_line(self, line_index: int) -> Text:
        """The line as it is drawn: labels stand out, nothing in it acts on the terminal."""
        line = super().get_line(line_index)
        for match in _LABEL.finditer(line.plain):
            if match[0] in self._pastes:
                line.stylize("bold", *match.span())
        return line

    # keys

    async def _on_key(self, event: events.Key) -> None:
        key = event.key
        if key == "enter":
            event.stop()
            event.prevent_default()
            self._enter()
        elif key in NEWLINE_KEYS:
            event.stop()
            event.prevent_default()
            self.insert("\n")
        elif (key == "backspace" and self._delete_label()) or self._navigates(key):
            event.stop()
            event.prevent_default()
        else:
            await super()._on_key(event)

    def _navigates(self, key: str) -> bool:
        if key == "up" and self.cursor_at_first_line and self.selection.is_empty:
            return self._recall(-1)
        if key == "down" and self.cursor_at_last_line and self._recalled is not None:
            return self._recall(1)
        if key in ("pageup", "pagedown"):
            self.post_message(self.PageAsked(-1 if key == "pageup" else 1))
            return True
        if key == "end" and not self.text:
            self.post_message(self.PageAsked(None))
            return True
        return False

    def _enter(self) -> None:
        row, column = self.cursor_location
        if self.document.get_line(row)[:column].endswith("\\"):
            # a backslash before Enter continues the message on a new line
            self.replace("\n", (row, column - 1), (row, column))
            return
        draft = self.draft
        if draft.full.strip():
            # at once: what is typed from now on is the next message
            self.load(Draft())
            self.post_message(self.Submitted(draft))

    # pasting

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        # terminals send a pasted line end as carriage return
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        self.insert(text if _is_plain(text) else self._label(text))

    def _label(self, text: str) -> str:
        lines = text.count("\n") + 1
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        label, number = f"[pasted {size}]", 1
        while label in self._pastes or label in text:
            number += 1
            label = f"[pasted {size} #{number}]"
        self._pastes[label] = text
        return label

    def _delete_label(self) -> bool:
        """Backspace behind a label takes it away whole."""
        if not self.selection.is_empty:
            return False
        row, column = self.cursor_location
        for match in _LABEL.finditer(self.document.get_line(row)[:column]):
            if match.end() == column and match[0] in self._pastes:
                self.delete((row, match.start()), (row, column))
                return True
        return False

    # earlier messages

    def _recall(self, step: int) -> bool:
        if not self._sent:
            return False
        at = len(self._sent) if self._recalled is None else self._recalled
        to = at + step
        if to < 0:
            return True
        if self._recalled is None:
            self._stashed = self.draft
        if to >= len(self._sent):
            self.load(self._stashed)
            return True
        self.load(Draft(self._sent[to]))
        self._recalled = to
        return True


def _is_plain(text: str) -> bool:
    """Whether the input widget holds and shows `text` exactly, and at once."""
    if len(text) > MAX_PLAIN_PASTE_CHARS or text.count("\n") >= MAX_PLAIN_PASTE_LINES:
        return False
    return visible(text, multiline=True) == text and len(text.splitlines()) <= text.count("\n") + 1
