"""What is done with a chat of the history that need not be open."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from localpaged.errors import LocalPagedError
from localpaged.plain_text import visible
from localpaged.tui.screens.rename import RenameScreen
from localpaged.tui.session import SessionModel

if TYPE_CHECKING:
    from localpaged.store.rows import Chat
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.workspace import Workspace

Then = Callable[[], object]


class HistoryDeeds:
    """Keeps workspace and history together. UI thread only."""

    def __init__(
        self,
        app: LocalPagedApp,
        workspace: Workspace,
        *,
        export: Callable[[str], None],
        show_current: Callable[[], object],
    ) -> None:
        """`export` writes a chat to a file; `show_current` shows what took a chat's place."""
        self._app = app
        self._service = app.service
        self._workspace = workspace
        self._show_current = show_current
        self._deeds: dict[str, Callable[[Chat, Then], None]] = {
            "rename": self._rename,
            "archive": self._archive,
            "delete": self._delete,
            "export": lambda chat, _: export(chat.id),
        }

    def run(self, name: str, chat: Chat, then: Then) -> None:
        """Do what is called `name`, and when it is done, `then`. What is refused is told."""
        if chat.is_hidden and name != "export":
            self._app.tell("This is an answer of a compare: open it to keep or delete it.")
            return
        try:
            self._deeds[name](chat, then)
        except LocalPagedError as error:
            self._app.tell_error(error)

    def tell_error(self, error: LocalPagedError) -> None:
        """What could not be done."""
        self._app.tell_error(error)

    def session_of(self, chat: Chat) -> SessionModel:
        """The chat as the workspace has it; a chat that is not listed is opened on the way."""
        return self._workspace.find(chat.id) or SessionModel(chat)

    def _rename(self, chat: Chat, then: Then) -> None:
        def named(title: str | None) -> None:
            if title is None:
                return
            try:
                self._workspace.rename(self.session_of(chat), title)
            except LocalPagedError as error:
                self._app.tell_error(error)
            then()

        self._app.push_screen(RenameScreen(chat.title), named)

    def _archive(self, chat: Chat, then: Then) -> None:
        title = visible(chat.title)
        if chat.deleted_at is not None:
            self._app.tell(f"“{title}” is deleted; restore it first.")
            return
        if chat.archived_at is not None:
            self._service.history.unarchive(chat.id)
            self._workspace.refresh()
            self._app.tell(f"“{title}” is in the list again")
        else:
            self._leave(chat, lambda: self._service.history.archive(chat.id))
            self._app.tell(f"Archived “{title}”; searching still finds it")
        then()

    def _delete(self, chat: Chat, then: Then) -> None:
        title = visible(chat.title)
        if chat.deleted_at is not None:
            self._service.restore(chat.id)
            self._workspace.refresh()
            self._app.tell(f"“{title}” is back")
        else:
            self._leave(chat, lambda: self._service.delete(chat.id))
            self._app.tell(f"Deleted “{title}”; under “deleted” it can be restored")
        then()

    def _leave(self, chat: Chat, deed: Callable[[], object]) -> None:
        """Do what takes a chat off the list; where it was shown, show its neighbour."""
        was_shown = self._workspace.current.id == chat.id
        self._workspace.take_out(self.session_of(chat), deed)
        if was_shown:
            self._show_current()
