"""The application: owns the screens, the pace, what is told to the user. No logic of chats."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.filter import LineFilter
from textual.screen import ModalScreen

from localpaged.config_file import UiSettings
from localpaged.errors import LocalPagedError
from localpaged.plain_text import visible
from localpaged.tui import clipboard
from localpaged.tui.appearance import first_theme, without_greys
from localpaged.tui.ascii_filter import AsciiFilter
from localpaged.tui.awaited import Awaited
from localpaged.tui.bridge import EventBridge
from localpaged.tui.collector import calm_collector
from localpaged.tui.coordinator import Coordinator
from localpaged.tui.dead_parts import TidyApp
from localpaged.tui.desktop import open_on_desktop
from localpaged.tui.glyphs import ASCII, UNICODE, Glyphs
from localpaged.tui.keymap import USUAL_KEYS, Keymap
from localpaged.tui.keys import show_keymap
from localpaged.tui.legacy_keys import teach_alt_keys
from localpaged.tui.notices import Notices
from localpaged.tui.paste_guard import guard_pastes, restored
from localpaged.tui.preferences import save_theme
from localpaged.tui.screens.chat import ChatScreen
from localpaged.tui.screens.confirm import QuitScreen
from localpaged.tui.screens.live import LiveScreen
from localpaged.tui.theme import DARK, NAMES, known_theme, themes
from localpaged.tui.typist import Fence, Typist
from localpaged.tui.workers import begin
from localpaged.tui.workspace import Workspace

if TYPE_CHECKING:
    from localpaged.chat.publisher import Subscriber
    from localpaged.chat.service import ChatService
    from localpaged.tui.commands.commands import Commands

OpenService = Callable[["Subscriber"], "ChatService"]
"""Opens the history and begins to load the model; its events go to the subscriber."""

MakeCommands = Callable[["LocalPagedApp", ChatScreen], "Commands"]

DEFAULT_LOOK = UiSettings()

STYLES = Path(__file__).parent / "styles"

# of what is no part of the first picture, which does not wait for them
LATER_STYLES = ("tokens", "dialogs", "blocks", "compare", "history", "stats")

OPEN_ELSEWHERE = "Another localpaged is open: this is a new chat, the others are in the list."
# how often it is looked whether other programs changed the history
HISTORY_POLL_S = 2.0


class LocalPagedApp(TidyApp[None]):
    """One app over one ChatService, which it neither makes nor closes. UI thread only."""

    TITLE = "localpaged"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH: ClassVar = ["styles/app.tcss", "styles/few_colours.tcss"]
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self,
        service: ChatService | OpenService,
        *,
        glyphs: Glyphs = UNICODE,
        look: UiSettings = DEFAULT_LOOK,
        keymap: Keymap = USUAL_KEYS,
        usual_theme: str = DARK,
        first: Callable[[LocalPagedApp], object] | None = None,
    ) -> None:
        """A function instead of the service is called on a thread when the first picture stands.

        `keymap` has the keys of the user's own. `first` is called when the chats are shown.
        """
        super().__init__()
        self.set_keymap(keymap)
        show_keymap(keymap)
        self._bridge = EventBridge()
        self.awaited = Awaited(self.nudge)
        self.is_opened = False
        self._notices = Notices()
        self._first = first
        self.failure: LocalPagedError | None = None
        self._next_poll_s = 0.0
        self._service: ChatService | None = None
        self._open_service: OpenService | None = None
        self.workspace = Workspace(clock_s=monotonic)
        self.chat = ChatScreen(self.workspace, glyphs, width=look.width)
        if callable(service):
            self._open_service = service
        else:
            service.subscribe(self._bridge.put)
            self._work_with(service, import_commands())
        self._coordinator = Coordinator(self.beat)
        self.typist = Typist(self, super().on_event)
        for theme in themes():
            self.register_theme(theme)
        self._has_theme_in_file = bool(look.theme)
        self.theme = self._first_theme(look.theme, usual_theme)
        teach_alt_keys()
        guard_pastes()

    def get_default_screen(self) -> ChatScreen:
        """The chat is there from the first moment on, laid out for the size that there is."""
        self.chat.fit(self.size)
        return self.chat

    def refresh_css(self, animate: bool = True) -> None:
        """Style everything anew; while there is nothing, what is parsed is kept for later.

        Textual parses all styles for the empty app, and then again for the first screen.
        """
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())
            self.stylesheet.update(self)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Where ASCII alone is asked for, what Textual draws is drawn so, too."""
        filters = super().get_line_filters()
        return filters if self.chat.glyphs is not ASCII else [*filters, AsciiFilter()]

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Colours of our own that any theme may leave out."""
        return themes()[0].variables

    async def on_mount(self) -> None:
        """Show the chats at once; the model may take its time."""
        loop = asyncio.get_running_loop()
        self.call_after_refresh(self._begin)
        if not self.is_headless:
            for name in (signal.SIGTERM, signal.SIGHUP):
                loop.add_signal_handler(name, self.exit)
        self._bridge.connect(loop, self._coordinator.wake)
        begin(self, self._coordinator.run, name="coordinator")

    async def on_event(self, event: events.Event) -> None:
        """Keys and pastes from the terminal wait for those before them."""
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            self.typist.take(restored(event) if isinstance(event, events.Paste) else event)
        else:
            await super().on_event(event)

    @on(Fence)
    def _passed(self, fence: Fence) -> None:
        fence.passed.set()

    def on_unmount(self) -> None:
        """Events that still come are for nobody."""
        self._bridge.close()

    @property
    def service(self) -> ChatService:
        """The chats; there as soon as the history is open, which is before any key arrives."""
        assert self._service is not None, "the history is not open yet"
        return self._service

    @property
    def commands(self) -> Commands:
        """What the user can do; there when `service` is."""
        return self.chat.commands

    def _work_with(self, service: ChatService, make_commands: MakeCommands) -> None:
        self._service = service
        self.workspace.attach(service)
        self.chat.commands = make_commands(self, self.chat)

    def _begin(self) -> None:
        for name in LATER_STYLES:
            self.stylesheet.read(STYLES / f"{name}.tcss")
        if self._open_service is None:
            self._open_latest()
        else:
            begin(self, partial(self._open, self._open_service), name="open")

    async def _open(self, open_service: OpenService) -> None:
        def opened() -> tuple[ChatService, MakeCommands]:
            return open_service(self._bridge.put), import_commands()

        try:
            self._work_with(*await asyncio.to_thread(opened))
        except LocalPagedError as error:
            self.failure = error
            self.exit()
        else:
            self._open_latest()

    def _open_latest(self) -> None:
        try:
            self.workspace.refresh()
            # the chat that another screen shows is not fought for
            is_alone = self.service.history.store.claim_screen()
            if (session := self.workspace.last_used) is not None and is_alone:
                self.workspace.open(session)
            elif session is not None:
                self.tell(OPEN_ELSEWHERE, for_s=8.0)
        except LocalPagedError as error:
            self.tell_error(error)
        self.chat.show_current()
        if self._first is not None:
            self._first(self)
        self.is_opened = True
        # keys that came before are for this chat: not for a prompt that it replaces
        begin(self, self.typist.run, name="typist")
        begin(self, self._note_unopened, name="states of older chats")
        begin(self, self._remember_questions, name="earlier questions")
        if not self.is_headless:
            calm_collector()

    async def _remember_questions(self) -> None:
        try:
            self.chat.prompt.remember(await asyncio.to_thread(self.service.recent_questions))
        except LocalPagedError as error:
            self.tell_error(error)

    async def _note_unopened(self) -> None:
        try:
            await self.workspace.note_unopened()
        except LocalPagedError as error:
            self.tell_error(error)
        self.chat.redraw()

    def beat(self) -> bool:
        """Take events, draw, save what is due; return whether something moves by itself."""
        if not self.screen_stack:
            return False  # the app is being closed
        if not self.chat.is_there or self._service is None:
            return True
        changes = self.workspace.take(self._bridge.drain())
        try:
            if changes.is_engine and not self.is_headless:
                calm_collector()  # torch and the model came in between
            if changes.has_ended:
                self.workspace.refresh()
                self.commands.answers.resume_stopped(changes.to_resume)
                self.commands.context.ended(changes.ended)
                self.commands.branches.ended(changes.ended)
            for away in changes.away:
                self.tell_error(away)
            for missing in changes.missing:
                self.tell(f"{missing.chosen} is not here any more; {missing.default} answers.")
            self.awaited.take()
            snapshot = self.service.snapshot()
            is_moving = self.chat.flush(self.service.snapshot(self.workspace.chosen_model), changes)
            if self.chat.sidebar.display and self.chat.is_current:
                self.chat.costs.follow(
                    snapshot,
                    self.service.memory.inspect,
                    self.awaited,
                    now_s=monotonic(),
                    has_ended=changes.has_ended,
                )
            # one that is still being put together draws all there is when it stands
            if isinstance(self.screen, LiveScreen) and self.screen.is_there:
                is_moving = self.screen.beat(snapshot, changes) or is_moving
            self._follow_quitting()
            self.commands.drafts.keep_if_due()
            self._follow_history()
            self.tidy_up(is_moving=is_moving)
            return is_moving
        except LocalPagedError as error:
            self.tell_error(error)
            return False

    def nudge(self) -> None:
        """Have `beat` called soon. Any thread."""
        self._bridge.put(())

    def _follow_history(self) -> None:
        now_s = monotonic()
        if self.is_opened and now_s >= self._next_poll_s:
            self._next_poll_s = now_s + HISTORY_POLL_S
            self.commands.branches.follow_others()

    # what is told to the user

    def tell(self, text: str, *, is_error: bool = False, for_s: float = 4.0) -> None:
        """A short message in a corner, shown literally."""
        self._tell(visible(text), is_error=is_error, for_s=for_s)

    def tell_error(self, error: LocalPagedError) -> None:
        """What went wrong and what to do about it."""
        text = f"{error.message}\n{error.hint}" if error.hint else error.message
        self._tell(visible(text, multiline=True), is_error=True, for_s=8.0)

    def _tell(self, text: str, *, is_error: bool, for_s: float) -> None:
        if self._notices.is_new(text, for_s=for_s):
            self.notify(
                text,
                severity="error" if is_error else "information",
                timeout=for_s,
                markup=False,
            )

    def copy_text(self, text: str, what: str) -> None:
        """Copy, and say what and how much."""
        clipboard.copy_and_tell(self, text, what, tell=self.tell)

    def open_address(self, address: str) -> None:
        """Open a web address on the desktop; without one, copy it."""

        async def open_it() -> None:
            if not await open_on_desktop(address):
                self.copy_text(address, "address")

        begin(self, open_it, name="browser")

    # the application's own actions

    def _first_theme(self, of_file: str, usual: str) -> str:
        if self.no_color:
            self._filters = without_greys(self._filters)
        return first_theme(of_file, usual, has_colours=not self.no_color)

    def use_theme(self, name: str) -> bool:
        """Take the theme that a person calls `name`; False, and told, when there is none."""
        theme = known_theme(name)
        if not theme:
            self.tell(f"There is no theme {name}; there are {', '.join(NAMES)}.", is_error=True)
            return False
        self._choose_theme(theme)
        return True

    def _choose_theme(self, theme: str) -> None:
        if self.no_color:
            self.tell("NO_COLOR is set: there are no colours to choose.")
            return
        self.theme = theme
        if self._has_theme_in_file:
            self.tell("For this run: the config file has the theme of the next start.")
            return
        try:
            save_theme(theme)
        except OSError as error:
            self.tell(f"The theme is not remembered: {error.strerror}.", is_error=True)

    def ask_to_quit(self) -> None:
        """Quit; while answers run only when the user says so again."""
        running = len(self.workspace.running)
        if not running:
            self._leave()
            return

        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self._leave()

        self.push_screen(QuitScreen(running), answered)

    def _follow_quitting(self) -> None:
        """An answer may end while the user is asked whether to quit."""
        if isinstance(self.screen, QuitScreen):
            self.screen.follow(len(self.workspace.running))

    async def action_quit(self) -> None:
        """The quit key, wherever it is pressed but in a dialog other than its own."""
        if isinstance(self.screen, QuitScreen):
            self.screen.action_answer(True)
        elif not isinstance(self.screen, ModalScreen):
            self.ask_to_quit()

    def action_help_quit(self) -> None:
        """Leave a dialog with the key that leaves everything."""
        if self.screen is not self.chat:
            self.screen.dismiss()

    def _leave(self) -> None:
        self.commands.drafts.keep()
        self.exit()


def import_commands() -> MakeCommands:
    """Import what the user can do, dialogs included: the first picture does not wait for it."""
    from localpaged.tui.commands.commands import Commands

    return Commands
