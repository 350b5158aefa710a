"""What was last seen of one model's memory, and asking for more of it. No widgets."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from localpaged.engine.inspection import BlockTokens, Inspection
from localpaged.engine.snapshot import EngineSnapshot
from localpaged.errors import LocalPagedError
from localpaged.tui.awaited import Awaited
from localpaged.tui.memory.tree_rows import TreeRow, label_of, row_of_block, tree_rows
from localpaged.tui.memory.views import ChatColours, Picture, View, picture
from localpaged.tui.memory.words import UNLISTED
from localpaged.tui.workspace import Workspace

if TYPE_CHECKING:
    from localpaged.chat.models import ModelChoice
    from localpaged.chat.service import ChatService

INSPECT_S = 0.2


class MemoryLook:
    """Looks a few times a second, when it is told to. UI thread only.

    Invariant: at most one inspection is asked for at a time; rows and colours are those of `seen`.
    """

    def __init__(
        self,
        service: ChatService,
        workspace: Workspace,
        awaited: Awaited,
        *,
        has_seen: Callable[[], None],
        has_read: Callable[[], None],
    ) -> None:
        """`has_seen` is called when memory looks otherwise, `has_read` when a block's text came."""
        self._service = service
        self._workspace = workspace
        self._awaited = awaited
        self._has_seen = has_seen
        self._has_read = has_read
        self.models = self._loaded_models()
        chat = workspace.current.chat
        # the memory that answers the chat from which the user came
        self.model = chat.model if chat is not None and chat.model in self.models else ""
        self.seen = Inspection()
        self.rows: list[TreeRow] = []
        self._colours = ChatColours()
        self._tokens: BlockTokens | None = None
        self._unlisted: dict[str, str] = {}
        self._spelled: dict[tuple[int, ...], str] = {}
        self._is_asked = False
        self._due_s = 0.0

    @property
    def snapshot(self) -> EngineSnapshot:
        """The engine's counters for the model that is looked at."""
        return self._service.snapshot(self.model)

    def look(self) -> None:
        """Ask for what is in memory now, if it is time."""
        if not self._is_asked and monotonic() >= self._due_s:
            self._is_asked = True
            self._due_s = monotonic() + INSPECT_S
            inspected = self._service.memory.inspect(self.model)
            self._awaited.when_done(inspected, self._take, self._cannot_look)

    def look_soon(self) -> None:
        """Something was done to memory: the next beat sees what."""
        self._due_s = 0.0

    def read(self, block: int) -> None:
        """Ask for the text of a block, of that one alone; a free one has none."""
        if block < self.seen.num_blocks and self.seen.states[block]:
            asked = self._service.memory.tokens(block, self.model)
            self._awaited.when_done(asked, self._take_tokens, lambda error: None)

    def tokens_of(self, block: int) -> BlockTokens | None:
        """What was read of a block; None when another one was."""
        is_this = self._tokens is not None and self._tokens.block == block
        return self._tokens if is_this else None

    def picture(self, view: View) -> Picture:
        """The blocks in a view."""
        return picture(self.seen, view, self._colours, self.title_of)

    def title_of(self, chat_id: str) -> str:
        """What a chat is called; one that is not listed with the reason why."""
        session = self._workspace.find(chat_id)
        if session is not None:
            return session.title
        if chat_id not in self._unlisted:
            self._unlisted[chat_id] = self._unlisted_title(chat_id)
        return self._unlisted[chat_id]

    def _unlisted_title(self, chat_id: str) -> str:
        try:
            chat = self._service.history.store.chat(chat_id)
        except LocalPagedError:
            return UNLISTED
        for why, is_so in (
            ("deleted", chat.deleted_at is not None),
            ("compare", chat.is_hidden),
            ("archived", chat.archived_at is not None),
        ):
            if is_so:
                return f"{why}: {chat.title}"
        return UNLISTED

    def label_of(self, row: TreeRow) -> str:
        """What a branch is called."""
        return label_of(row, self.title_of, lambda node: self.spell(node.first_tokens))

    def spell(self, ids: tuple[int, ...]) -> str:
        """What a person reads in a few tokens."""
        if ids not in self._spelled:
            self._spelled[ids] = self._service.memory.spell(ids, self.model)
        return self._spelled[ids]

    def place_of(self, block: int) -> int | None:
        """The row that a block is in."""
        return row_of_block(self.rows, self.seen, block)

    def chats_of(self, block: int) -> list[str]:
        """The chats that hold a block or had it, those that hold it first."""
        holders = [table.chat_id for table in self.seen.holders(block)]
        place = self.seen.place(block)
        return list(dict.fromkeys([*holders, *(place[0].chats if place is not None else ())]))

    def next_model(self) -> bool:
        """Look at the memory of another loaded model; False when there is no other."""
        self.models = self._loaded_models()
        if len(self.models) < 2:
            return False
        at = self.models.index(self.model) if self.model in self.models else 0
        self._change_model(self.models[(at + 1) % len(self.models)])
        return True

    def _loaded_models(self) -> list[str]:
        """The models whose memory can be looked at, the default one first and without a name."""
        try:
            choices = self._service.models()
        except LocalPagedError:
            # a folder of models that cannot be read is told where models are chosen
            return [""]
        return [
            "" if choice.is_default else choice.name for choice in choices if _has_memory(choice)
        ]

    def _change_model(self, model: str) -> None:
        self.model = model
        self._tokens = None
        self._spelled.clear()
        self.look_soon()

    def _take(self, seen: Inspection) -> None:
        self._is_asked = False
        if seen != self.seen:
            self.seen, self.rows = seen, tree_rows(seen)
            self._colours.follow(seen)
            self._has_seen()

    def _take_tokens(self, tokens: BlockTokens | None) -> None:
        if tokens != self._tokens:
            self._tokens = tokens
            self._has_read()

    def _cannot_look(self, error: LocalPagedError) -> None:
        # a model that was unloaded, or an engine that ended, which the screen tells
        self._is_asked = False
        self._change_model("")


def _has_memory(choice: ModelChoice) -> bool:
    return choice.is_loaded and not choice.endpoint
