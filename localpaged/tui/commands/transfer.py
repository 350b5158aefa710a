"""Chats to files and back, while everything else goes on."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from localpaged.chat.portable.file_format import FileFormat
from localpaged.chat.portable.report import Imported, ImportReport, Outcome, summary
from localpaged.errors import LocalPagedError
from localpaged.plain_text import visible
from localpaged.tui.attachments import path_of
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.commands.chats import ChatCommands
from localpaged.tui.figures import grouped
from localpaged.tui.importing import Importing
from localpaged.tui.session import SessionModel
from localpaged.tui.workers import begin

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen

TOLD_S = 8.0


class TransferCommands(CommandGroup):
    """Asks the history to write and read files, on another thread. UI thread only."""

    def __init__(self, app: LocalPagedApp, screen: ChatScreen, chats: ChatCommands) -> None:
        super().__init__(app, screen)
        self._chats = chats
        self._history = app.service.history

    def export_current(self) -> None:
        """Write the chat that is shown as Markdown into the working folder."""
        self.export_told("md")

    def export_told(self, argument: str) -> bool:
        """Write the chat that is shown: `md` or `json`, then a path; False for something else."""
        kind, _, path = argument.partition(" ")
        if kind not in tuple(FileFormat):
            self._app.tell(f"/export takes md or json, then a path, not {argument}.", is_error=True)
            return False
        chat = self._workspace.current.chat
        if chat is None:
            self._app.tell("There is no chat to export yet.")
            return False
        self.export(chat.id, kind=kind, path=path.strip())
        return True

    def export(self, chat_id: str, *, kind: str = "md", path: str = "") -> None:
        """Write a chat, by default into the working folder."""
        work = partial(self._export, chat_id, kind, path)
        begin(self._app, work, name="export", group="transfer")

    def choose_import(self) -> None:
        """Tell how an import is asked for."""
        self._app.tell("Which file? Write /import and its path.")

    def import_told(self, path: str) -> bool:
        """Add the chats of a file."""
        begin(self._app, partial(self._import, path), name="import", group="transfer")
        return True

    async def _export(self, chat_id: str, kind: str, path: str) -> None:
        try:
            target = path_of(path or ".")
            written = await asyncio.to_thread(self._history.export, chat_id, kind, target)
        except LocalPagedError as error:
            self._app.tell_error(error)
        else:
            self._app.tell(f"Wrote {written.absolute()}", for_s=TOLD_S)

    async def _import(self, path: str) -> None:
        file = path_of(path)
        importing = Importing(file.name)
        self._workspace.imports.append(importing)
        self._app.nudge()
        reading = partial(
            self._history.import_file, may_go_on=importing.may_go_on, told=importing.take
        )
        try:
            report = await asyncio.to_thread(reading, file)
        except LocalPagedError as error:
            self._app.tell_error(error)
            return
        finally:
            # who quits does not wait for the rest of a long file
            importing.is_left = True
            self._workspace.imports.remove(importing)
        self._show(report)
        self._app.tell(_told(report), is_error=bool(report.num_problems), for_s=TOLD_S)

    def _show(self, report: ImportReport) -> None:
        """List what came; what was loaded and went on is read anew; a single chat is opened."""
        self._try(self._workspace.refresh)
        for imported in report.chats:
            session = self._workspace.find(imported.chat.id)
            if session is not None and session.is_loaded and imported.outcome is Outcome.GREW:
                self._read_anew(session)
        if len(report.chats) == 1:
            self._open(report.chats[0])
        self._screen.redraw()

    def _read_anew(self, session: SessionModel) -> None:
        session.is_loaded = False
        self._transcript.forget(session)
        if session is self._workspace.current and self._try(lambda: self._workspace.open(session)):
            self._screen.show_current()

    def _open(self, imported: Imported) -> None:
        chat = imported.chat
        self._chats.go_to(self._workspace.find(chat.id) or SessionModel(chat))


def _told(report: ImportReport) -> str:
    text = summary(report.chats)
    if report.problems:
        more = report.num_problems - 1
        rest = f" and {grouped(more)} more" if more else ""
        text += f". Not read: {visible(report.problems[0])}{rest}"
    return text
