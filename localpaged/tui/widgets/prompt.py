"""Where the user writes. Enter sends, and only Enter: no paste ever does.

Text that the input widget could not show exactly or quickly (long pastes, control characters) is
held aside and stands in the prompt as a label such as `[pasted 312 lines]`, as attached files do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.message import Message

from localpaged.tui.labels import Price, Taken, folded, is_plain, is_priced, label_for, labels_in
from localpaged.tui.session import Draft
from localpaged.tui.widgets.text_box import TextBox

if TYPE_CHECKING:
    from rich.text import Text
    from textual import events

HISTORY_MESSAGES = 100
NEWLINE_KEYS = frozenset({"ctrl+j", "shift+enter", "alt+enter", "ctrl+enter"})


class Prompt(TextBox):
    """The input. UI thread only.

    Invariant: every label in `_pastes` stands for exactly the text that was pasted.
    """

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

    class Labelled(Message):
        """A label stands for `text`, and does not tell yet what it costs."""

        def __init__(self, label: str, text: str) -> None:
            super().__init__()
            self.label = label
            self.text = text

    class PastedAlone(Message):
        """A line was pasted into the empty prompt: it may be a file's path."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(self, *, dot: str = "·", id: str | None = None) -> None:  # noqa: A002
        """`dot` stands between the parts of a label."""
        super().__init__(
            id=id,
            compact=True,
            soft_wrap=True,
            show_line_numbers=False,
            highlight_cursor_line=False,
            tab_behavior="focus",
        )
        self._dot = dot
        self._pastes: dict[str, str] = {}
        self._sent: list[str] = []
        self._recalled: int | None = None
        self._stashed = Draft()
        # asked first what a key means; it says whether it used it
        self.completer: Callable[[str], bool] = _no_use

    @property
    def draft(self) -> Draft:
        """What is typed, with what its labels stand for."""
        text = self.text
        return Draft(text, {k: v for k, v in self._pastes.items() if k in text})

    def load(self, draft: Draft) -> None:
        """Show a draft, the cursor at its end."""
        self._recalled = None
        text, pastes = draft.text, draft.pastes
        if not pastes:
            text, pastes = folded(text)
        self._pastes = dict(pastes)
        self.text = text
        self.move_cursor(self.document.end)
        for label, pasted in pastes.items():
            self._ask_price(label, pasted)

    def remember(self, earlier: Sequence[str]) -> None:
        """Have Up recall these as well, oldest first, before what was sent since."""
        before = [text for text in earlier if text not in self._sent]
        self._sent = before + self._sent
        if self._recalled is not None:
            self._recalled += len(before)

    def add_sent(self, text: str) -> None:
        """Up recalls this message first."""
        self._sent = [*(earlier for earlier in self._sent if earlier != text), text]
        del self._sent[:-HISTORY_MESSAGES]
        self._recalled = None

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

    def add_labelled(self, text: str) -> None:
        """Write a label that stands for `text` at the cursor."""
        self.insert(self._label(text))

    def set_price(self, label: str, price: Price) -> None:
        """Tell beside a label what its text costs, if it still stands in the prompt."""
        text = self._pastes.get(label)
        if text is None:
            return
        for row in range(self.document.line_count):
            column = self.document.get_line(row).find(label)
            if column >= 0:
                priced = self._free_label(text, price=price)
                # the old label stays known: undo may bring it back
                self._pastes[priced] = text
                self.replace(
                    priced,
                    (row, column),
                    (row, column + len(label)),
                    maintain_selection_offset=True,
                )
                return

    def say(self, hint: str) -> None:
        """Set the text of the empty prompt."""
        if self.placeholder != hint:
            self.placeholder = hint

    def get_line(self, line_index: int) -> Text:
        """The line as it is drawn: labels stand out, nothing in it acts on the terminal."""
        line = super().get_line(line_index)
        if self._pastes:
            for match in labels_in(self._pastes).finditer(line.plain):
                line.stylize("bold", *match.span())
        return line

    # keys

    async def _on_key(self, event: events.Key) -> None:
        key = event.key
        if self.completer(key):
            event.stop()
            event.prevent_default()
        elif key == "enter":
            event.stop()
            event.prevent_default()
            self._enter()
        elif key in NEWLINE_KEYS:
            event.stop()
            event.prevent_default()
            self.insert("\n")
        elif self._deletes_label(key) or self._navigates(key):
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
        is_alone = not self.text
        self.insert(text if is_plain(text) else self._label(text))
        if is_alone and is_plain(text) and text.strip() and "\n" not in text:
            self.post_message(self.PastedAlone(text))

    def _label(self, text: str) -> str:
        label = self._free_label(text)
        self._pastes[label] = text
        self._ask_price(label, text)
        return label

    def _free_label(self, text: str, *, price: Price | None = None) -> str:
        shown = self.text
        # what stood for this very text before may do so again
        others = {k: v for k, v in self._pastes.items() if v != text or k in shown}
        return label_for(text, taken=Taken(others, shown), price=price, dot=self._dot)

    def _ask_price(self, label: str, text: str) -> None:
        if not is_priced(label):
            self.post_message(self.Labelled(label, text))

    def _deletes_label(self, key: str) -> bool:
        """Backspace behind a label and Delete before one take it away whole."""
        if key not in ("backspace", "delete") or not self.selection.is_empty or not self._pastes:
            return False
        row, column = self.cursor_location
        for match in labels_in(self._pastes).finditer(self.document.get_line(row)):
            if column == (match.end() if key == "backspace" else match.start()):
                self.delete((row, match.start()), (row, match.end()))
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


def _no_use(key: str) -> bool:
    return False
