"""Text files into the message, and the price of what is too long to read in the prompt."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from localpaged.abilities import Ability
from localpaged.chat.attached import file_block
from localpaged.engine.params import BLOCK_SIZE_TOKENS
from localpaged.errors import LocalPagedError, PromptEndless
from localpaged.plain_text import visible
from localpaged.tui.attachments import Attachment, is_file_path, path_of, read_attachment
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.figures import grouped, percent
from localpaged.tui.labels import TOO_LONG, Price
from localpaged.tui.screens.ask_text import AskTextScreen
from localpaged.tui.screens.confirm import ConfirmScreen
from localpaged.tui.session import Draft
from localpaged.tui.workers import Work, begin

if TYPE_CHECKING:
    from localpaged.tui.session import SessionModel


log = logging.getLogger(__name__)


class AttachingCommands(CommandGroup):
    """Reads files and counts tokens beside the UI; what comes of it goes into the prompt.

    UI thread only. What belongs to a chat that is not shown any more is left out.
    """

    def attach(self, written: str) -> bool:
        """Attach the file of that path; what is wrong with it is told, and the command is back."""
        self._run(partial(self._attach, written, command=f"/attach {written}"))
        return True

    def ask(self) -> None:
        """Ask for a path and attach that file."""

        def answered(written: str | None) -> None:
            if written is not None:
                self._run(partial(self._attach, written))

        self._app.push_screen(
            AskTextScreen("Attach a text file", hint="Its path; Enter attaches it, Esc cancels"),
            answered,
        )

    def offer(self, written: str) -> None:
        """A path stands alone in the prompt: if it is a file's, ask whether to attach that."""
        self._run(partial(self._offer, written))

    def price(self, label: str, text: str) -> None:
        """Tell beside a label what its text costs."""
        self._run(partial(self._price, label, text))

    # beside the UI

    async def _attach(self, written: str, *, command: str = "") -> None:
        session = self._workspace.current
        try:
            attachment = await asyncio.to_thread(read_attachment, written)
        except LocalPagedError as error:
            self._app.tell_error(error)
            if session is self._workspace.current and not self._prompt.text:
                self._prompt.load(Draft(command))
            return
        if session is not self._workspace.current:
            self._app.tell(
                f"{visible(attachment.name)} is not attached: another chat is shown now."
            )
            return
        block = file_block(attachment.name, attachment.text)
        self._prompt.add_labelled(block)
        try:
            tokens = await self._tokens(session, block)
        except PromptEndless as error:
            self._app.tell_error(error)
        else:
            self._tell_price(attachment, tokens)

    async def _offer(self, written: str) -> None:
        if not await asyncio.to_thread(is_file_path, written):
            return
        if self._prompt.text != written:
            return

        def answered(is_yes: bool | None) -> None:
            if is_yes and self._prompt.text == written:
                self._prompt.text = ""
                self.attach(written)

        self._app.push_screen(
            ConfirmScreen(
                "Attach this file?",
                visible(str(path_of(written))),
                yes="Attach",
                no="Keep the path as text",
            ),
            answered,
        )

    async def _price(self, label: str, text: str) -> None:
        session = self._workspace.current
        try:
            tokens = await self._tokens(session, text)
        except PromptEndless:
            price: Price | None = TOO_LONG
        else:
            price = None if tokens is None else _price(tokens)
        if price is not None and session is self._workspace.current:
            self._prompt.set_price(label, price)

    async def _tokens(self, session: SessionModel, text: str) -> int | None:
        """Count a text; None when that cannot be. Raises PromptEndless for what never fits."""
        model = "" if session.chat is None else session.chat.model
        try:
            counting = self._app.service.count_tokens(text, model=model)
            return await asyncio.wrap_future(counting)
        except PromptEndless:
            raise
        except LocalPagedError:
            # no model, no price: why there is none is told where it matters
            return None
        except Exception:
            log.exception("a text could not be counted")
            return None

    def _tell_price(self, attachment: Attachment, tokens: int | None) -> None:
        parts = [f"{visible(attachment.name)} is attached"]
        ready = self._workspace.engine.ready
        is_too_long = ready is not None and tokens is not None and tokens > ready.context_length
        if tokens is not None:
            parts.append(f"{grouped(tokens)} tokens, {self._share(tokens)}")
        elif reason := self._why_no_price():
            parts.append(reason)
        if is_too_long and ready is not None:
            parts.append(f"more than the context of {grouped(ready.context_length)} tokens")
        if attachment.num_replaced:
            parts.append(f"what is not UTF-8 became {grouped(attachment.num_replaced)} marks")
        self._app.tell("; ".join(parts) + ".", is_error=is_too_long, for_s=6.0)

    def _why_no_price(self) -> str:
        chat = self._workspace.current.chat
        model = "" if chat is None else chat.model
        return self._app.service.abilities(model).why_not(Ability.PRICE)

    def _share(self, tokens: int) -> str:
        blocks = _blocks(tokens)
        snapshot = self._app.service.snapshot()
        pool = max(snapshot.max_blocks, snapshot.total_blocks)
        told = f"{grouped(blocks)} KV {'block' if blocks == 1 else 'blocks'}"
        return f"{told}, {percent(blocks, pool)} of the pool" if pool else told

    def _run(self, work: Work) -> None:
        begin(self._app, work, name="attaching")


def _price(tokens: int) -> Price:
    blocks = _blocks(tokens)
    return f"{grouped(tokens)} tok", f"{grouped(blocks)} {'block' if blocks == 1 else 'blocks'}"


def _blocks(tokens: int) -> int:
    return -(-tokens // BLOCK_SIZE_TOKENS)
