"""Writing with other means: the user's editor for the message and for the system prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged.errors import LocalPagedError
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.commands.drafts import DraftCommands
from localpaged.tui.commands.options import OptionCommands, system_of
from localpaged.tui.editor import edited
from localpaged.tui.session import Draft

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen


class WritingCommands(CommandGroup):
    """Gives texts to an editor and takes them back. UI thread only; it waits for the editor."""

    def __init__(
        self,
        app: LocalPagedApp,
        screen: ChatScreen,
        drafts: DraftCommands,
        options: OptionCommands,
    ) -> None:
        super().__init__(app, screen)
        self._drafts = drafts
        self._options = options

    def edit_prompt(self) -> None:
        """Write the message in the editor; it is not sent."""
        # whatever becomes of the editor or of us, the draft is on the disk
        self._drafts.keep()
        text = self._edited(self._prompt.draft.full)
        if text is not None:
            self._prompt.load(Draft(text))
            self._drafts.typed()

    def edit_system(self) -> None:
        """Write the chat's system prompt in the editor."""
        self._drafts.keep()
        before = system_of(self._workspace.current)
        text = self._edited(before)
        if text is not None:
            self._options.set_system(text.strip())

    def _edited(self, text: str) -> str | None:
        """The text as the user left it; None, and told why, when it stays as it was."""
        try:
            after = edited(text, suspended=self._app.suspend)
        except LocalPagedError as error:
            self._app.tell_error(error)
            return None
        return None if after == text else after
