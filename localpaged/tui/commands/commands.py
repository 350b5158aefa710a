"""Every action of the key table. Keys, palette and slash commands all end in `run`."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from localpaged.tui.commands.answers import AnswerCommands
from localpaged.tui.commands.attaching import AttachingCommands
from localpaged.tui.commands.base import CommandGroup
from localpaged.tui.commands.branch_map import BranchMapCommands
from localpaged.tui.commands.branching import BranchCommands
from localpaged.tui.commands.chats import ChatCommands
from localpaged.tui.commands.compare import CompareCommands
from localpaged.tui.commands.completion import Completion
from localpaged.tui.commands.context import ContextCommands
from localpaged.tui.commands.drafts import DraftCommands
from localpaged.tui.commands.history import HistoryCommands
from localpaged.tui.commands.memory import MemoryCommands
from localpaged.tui.commands.options import OptionCommands
from localpaged.tui.commands.settings import SettingsCommands
from localpaged.tui.commands.tokens import TokenCommands
from localpaged.tui.commands.writing import WritingCommands
from localpaged.tui.keys import ACTIONS, BY_SLASH, OTHER_NAMES, commands, key_of, names_of
from localpaged.tui.limits import is_limited, why_not
from localpaged.tui.screens.help import HelpScreen
from localpaged.tui.screens.picker import Choice, PickerScreen
from localpaged.tui.session import Draft

if TYPE_CHECKING:
    from localpaged.tui.app import LocalPagedApp
    from localpaged.tui.screens.chat import ChatScreen

LEAVE_AGAIN_S = 1.5


class Commands(CommandGroup):
    """Finds the deed for an action, and does those of writing and leaving. UI thread only.

    Invariant: `deeds` has an entry for every action that is bound or a command.
    """

    def __init__(self, app: LocalPagedApp, screen: ChatScreen) -> None:
        super().__init__(app, screen)
        self.drafts = DraftCommands(app, screen)
        self.chats = ChatCommands(app, screen, self.drafts)
        self.answers = AnswerCommands(app, screen, self.chats)
        self.compare = compare = CompareCommands(app, screen, self.chats)
        self.attaching = AttachingCommands(app, screen)
        self.branches = branches = BranchCommands(app, screen, self.chats, self.answers)
        self.completion = Completion(app, screen)
        self.options = options = OptionCommands(app, screen)
        self.writing = writing = WritingCommands(app, screen, self.drafts, options)
        self.memory = memory = MemoryCommands(app, screen, self.chats, compare)
        self.history = history = HistoryCommands(app, screen, self.chats, compare)
        self.context = context = ContextCommands(app, screen, self.chats, self.drafts)
        tokens = TokenCommands(app, screen, self.chats)
        self._leave_until_s = 0.0
        chats, answers, workspace = self.chats, self.answers, self._workspace
        self.deeds: dict[str, Callable[[], None]] = {
            "leave": self.leave,
            "new_chat": chats.new,
            "switch_chat": chats.switch,
            "previous_chat": lambda: chats.step(-1),
            "next_chat": lambda: chats.step(1),
            "sidebar": chats.toggle_list,
            "rename": lambda: chats.rename(workspace.current),
            "delete": lambda: chats.delete(workspace.current),
            "editor": writing.edit_prompt,
            "attach": self.attaching.ask,
            "options": options.edit,
            "model": options.choose_model,
            "load": options.choose_loaded,
            "unload": options.choose_unloaded,
            "system": writing.edit_system,
            "set": options.show_values,
            "seed": options.show_values,
            "undo": chats.undo,
            "compare": compare.begin,
            "compares": compare.past,
            "browse": history.open,
            "search": history.open,
            "archive": lambda: history.archive(workspace.current),
            "find": history.finding.ask,
            "export": history.transfer.export_current,
            "import": history.transfer.choose_import,
            "stop": branches.escape,
            "regenerate": branches.regenerate_marked,
            "fork": branches.fork_marked,
            "edit": branches.edit_marked,
            "resume": answers.resume,
            "copy": answers.copy_answer,
            "copy_code": answers.copy_code,
            "tokens": tokens.show,
            "prompt_text": tokens.show_prompt,
            "context": context.show,
            "show_all": context.show_all,
            "thoughts": answers.toggle_thoughts,
            "copy_all": answers.copy_with_reasoning,
            "newest": self._transcript.follow,
            "blocks": memory.show_blocks,
            "stats": memory.show_stats,
            "tree": BranchMapCommands(app, screen, history).show,
            "pin": memory.pin,
            "unpin": memory.unpin,
            "why": memory.why,
            "palette": self.palette,
            "help": self.show_help,
            "theme": options.choose_theme,
            "settings": SettingsCommands(app, screen).show,
            "quit": app.ask_to_quit,
        }
        # what a slash command does with the text behind it; False gives it back to the prompt
        self.told: dict[str, Callable[[str], bool]] = {
            "rename": lambda title: chats.rename_to(workspace.current, title),
            "model": options.use_model,
            "load": options.load_model,
            "unload": options.unload_model,
            "theme": app.use_theme,
            "attach": self.attaching.attach,
            "system": options.set_system,
            "set": options.set_values,
            "seed": options.set_seed,
            "pin": memory.pin_part,
            "compare": compare.ask,
            "search": history.search,
            "find": history.finding.find,
            "export": history.transfer.export_told,
            "import": history.transfer.import_told,
        }

    def run(self, action_id: str) -> None:
        """Do what the table calls `action_id`; the key that stops things closes an offer first."""
        if reason := self._why_not(action_id):
            self._app.tell(f"{reason}.", is_error=True)
            return
        if not (action_id == "stop" and self.completion.close()):
            self.deeds[action_id]()

    def typed(self) -> None:
        """The prompt's text changed."""
        self.completion.refresh()
        if self.drafts.typed():
            self.chats.typed()

    def submit(self, draft: Draft) -> None:
        """Send a message, or run the slash command that it is; give back what cannot be done."""
        text = draft.full
        if text.startswith("/") and "\n" not in text:
            if not text.startswith("//"):
                self._slash(draft)
                return
            text = text[1:]
        if self._workspace.engine.failure is not None:
            self._prompt.give_back(draft)
            self._app.tell("There is no model to answer. Your text stays here.", is_error=True)
            return
        if self._workspace.current.editing is not None:
            if self.branches.send_edit(text):
                self._prompt.add_sent(text)
            else:
                self._prompt.give_back(draft)
            return
        # what another program wrote a moment ago comes before it
        if not self._try(self.branches.follow_others) or not self._try(
            lambda: self._workspace.send(text)
        ):
            self._prompt.give_back(draft)
            return
        self._prompt.add_sent(text)
        self.drafts.keep()
        self._transcript.advance(self._screen.moment)
        self._transcript.follow()
        self._screen.redraw()

    def palette(self) -> None:
        """Every command, narrowed by typing."""
        choices = []
        for action in commands():
            if action.id != "palette":
                # which endpoint it is stands in the top line; the reason needs the room
                reason = self._why_not(action.id).rpartition(": ")[2]
                choices.append(
                    Choice(
                        action.id,
                        action.label,
                        reason or action.note,
                        is_off=bool(reason),
                        other_names=names_of(action),
                    )
                )

        def chosen(action_id: str | None) -> None:
            if action_id is not None:
                self.run(action_id)

        self._app.push_screen(PickerScreen(choices, prompt="What would you like to do?"), chosen)

    def show_help(self) -> None:
        """Every key and command."""
        reasons = {a.id: reason for a in ACTIONS if (reason := self._why_not(a.id))}
        self._app.push_screen(HelpScreen(self._screen.focus_name, reasons=reasons))

    def leave(self) -> None:
        """The least destructive first: copy, stop, put the draft aside, offer to quit."""
        selected = self._screen.get_selected_text() or self._prompt.selected_text
        if selected:
            self._app.copy_text(selected, "selection")
            self._screen.clear_selection()
        elif self._workspace.current.open_answer is not None:
            self.answers.stop_current()
        elif self.branches.leave_edit():
            self._app.tell("The edit is put aside, Up brings it back")
        elif self._prompt.text:
            self._prompt.put_aside()
            self._app.tell("Draft put aside, Up brings it back")
        elif monotonic() <= self._leave_until_s:
            self._app.ask_to_quit()
        else:
            self._leave_until_s = monotonic() + LEAVE_AGAIN_S
            self._app.tell(f"Press {key_of('leave')} again to quit", for_s=LEAVE_AGAIN_S)

    def _why_not(self, action_id: str) -> str:
        if not is_limited(action_id):
            return ""
        answer = self._transcript.chosen_answer
        return why_not(action_id, self._workspace.current, answer, self._app.service.abilities)

    def _slash(self, draft: Draft) -> None:
        name, _, argument = draft.full[1:].partition(" ")
        action = BY_SLASH.get(OTHER_NAMES.get(name, name))
        if action is None:
            self._prompt.give_back(draft)
            self._app.tell(
                f"There is no command /{name}. //{name} sends it as text.", is_error=True
            )
            return
        if not argument.strip():
            self.run(action.id)
        elif action.id not in self.told:
            self._prompt.give_back(draft)
            self._app.tell(f"/{action.slash} takes no argument.", is_error=True)
        elif reason := self._why_not(action.id):
            self._prompt.give_back(draft)
            self._app.tell(f"{reason}.", is_error=True)
        elif not self.told[action.id](argument.strip()):
            self._prompt.give_back(draft)
