"""The one table of what the user can do: keys, palette, slash commands and help come from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from textual.binding import Binding

WRITING = "Writing"
CHATS = "Chats"
ANSWERS = "Answers"
IN_LIST = "In the list of chats"
IN_TRANSCRIPT = "In the transcript"
MEMORY = "Memory"
IN_BLOCKS = "In the blocks screen"
IN_TOKENS = "In the token view"
IN_COMPARE = "In the compare screen"
IN_HISTORY = "In the history"
APP = "Application"
WHOLE_SCREENS = (IN_BLOCKS, IN_TOKENS, IN_COMPARE, IN_HISTORY)
"""Groups of screens that lie over the chat: the same key may do one thing on each of them."""
GROUPS = (WRITING, CHATS, ANSWERS, IN_LIST, IN_TRANSCRIPT, MEMORY, *WHOLE_SCREENS, APP)


@dataclass(frozen=True, slots=True)
class Action:
    """One thing the user can do.

    `keys` are Textual's names, bound on the chat screen, or on the whole screen of the group.
    Without them the widget that has the focus handles the key. `usual` is how help and footer
    write it, unless the user has keys of their own. What has a `slash` name is a command: it is in
    the palette and works as `/name`; `argument` tells what may stand behind it.
    """

    id: str
    label: str
    group: str
    usual: str
    keys: str = ""
    slash: str = ""
    footer: str = ""
    argument: str = ""

    @property
    def shown(self) -> str:
        """How help, palette and footer write the key that the action has now."""
        return _OF_THE_USER.get(self.id, self.usual)

    @property
    def where(self) -> str:
        """What must have the focus for the key to work; empty when any part of the chat may."""
        return {IN_LIST: "list", IN_TRANSCRIPT: "transcript"}.get(self.group, "")

    @property
    def is_of_chat(self) -> bool:
        """Whether the action is done on the chat screen, and not on one that lies over it."""
        return self.group not in WHOLE_SCREENS

    @property
    def note(self) -> str:
        """The key and where it works, else the name to type."""
        place = f" in {self.where}" if self.where else ""
        return f"{self.shown}{place}" if self.shown else f"/{self.slash}"

    @property
    def binding(self) -> Binding:
        """The action as a Textual binding that works while any part of the chat has the focus."""
        # a command without a key may get one from the user's keymap, by its id
        keys = self.keys or f"no-key-{self.id}"
        # what can be typed must reach a line to write in on the same screen
        goes_first = self.is_of_chat or not is_typed(keys)
        return Binding(
            keys, f"do('{self.id}')", self.label, id=self.id, show=False, priority=goes_first
        )


ACTIONS = (
    Action("send", "Send the message", WRITING, "Enter", footer="send"),
    Action("newline", "New line", WRITING, "Shift+Enter ^J Alt+Enter"),
    Action("history", "Messages you sent before", WRITING, "Up Down"),
    Action("editor", "Write in your editor", WRITING, "^G", "ctrl+g", "editor"),
    Action("attach", "Attach a text file", WRITING, "", slash="attach", argument="path"),
    Action("leave", "Copy, or stop, or clear, or quit", WRITING, "^C", "ctrl+c"),
    Action("focus", "Prompt, transcript, list", WRITING, "Tab"),
    Action("new_chat", "New chat", CHATS, "^N", "ctrl+n", "new", footer="new"),
    Action("switch_chat", "Go to a chat", CHATS, "^S", "ctrl+s", "chats", footer="chats"),
    Action("previous_chat", "Chat above", CHATS, "Alt+Left", "alt+left,ctrl+shift+tab", "previous"),
    Action("next_chat", "Chat below", CHATS, "Alt+Right", "alt+right,ctrl+tab", "next"),
    Action("number", "Chat by its place in the list", CHATS, "Alt+1 to Alt+9"),
    Action("sidebar", "List of chats", CHATS, "^B", "ctrl+b", "list"),
    Action(
        "options", "Model, system prompt, sampling", CHATS, "^O", "ctrl+o", "options", "options"
    ),
    Action("model", "Choose the model", CHATS, "", slash="model", argument="name"),
    Action("load", "Load a model beforehand", CHATS, "", slash="load", argument="name"),
    Action("unload", "Let a model's memory go", CHATS, "", slash="unload", argument="name"),
    Action("system", "Set the system prompt", CHATS, "", slash="system", argument="text"),
    Action("set", "Set sampling parameters", CHATS, "", slash="set", argument="temp=0.7 top_p=0.9"),
    Action("seed", "Set the seed", CHATS, "", slash="seed", argument="7, or random"),
    Action("undo", "Bring a deleted chat back", CHATS, "^Z", slash="undo"),
    Action(
        *("compare", "Answers side by side", CHATS, "^L", "ctrl+l", "compare"),
        argument="n=4 t=0.2,0.7 m=A,B prompt",
    ),
    Action("compares", "Earlier compares", CHATS, "", slash="compares"),
    Action("browse", "Search and tidy all chats", CHATS, "F6", "f6", "history"),
    Action("search", "Search all chats", CHATS, "", slash="search", argument="text"),
    Action(
        *("export", "Export the chat to a file", IN_TRANSCRIPT, "x"),
        slash="export",
        argument="md|json path",
    ),
    Action("import", "Import chats from a file", CHATS, "", slash="import", argument="path"),
    Action("stop", "Stop the answer, keep its text", ANSWERS, "Esc", "escape", "stop", "stop"),
    Action("resume", "Continue a stopped answer", ANSWERS, "F5", "f5", "continue"),
    Action("regenerate", "Answer again, keep this one", ANSWERS, "^R", "ctrl+r", "regenerate"),
    Action("fork", "Fork the chat here", ANSWERS, "^F", "ctrl+f", "fork"),
    Action("tree", "Every way of the chat", ANSWERS, "", slash="tree"),
    Action("context", "Ways on in a full context", CHATS, "", slash="context"),
    Action("show_all", "Show the model the whole chat", CHATS, "", slash="show-all"),
    Action("thoughts", "Unfold or fold reasoning", ANSWERS, "^T", "ctrl+t", "thoughts"),
    Action("copy_all", "Copy answer and reasoning", ANSWERS, "", slash="copy-all"),
    Action("newest", "Newest line", ANSWERS, "^End", "ctrl+end", "end"),
    Action("pages", "Scroll", ANSWERS, "PgUp PgDn"),
    Action("open", "Open the chat", IN_LIST, "Enter", footer="open"),
    Action("rename", "Rename the chat", IN_LIST, "r", "", "rename", "rename", "title"),
    Action("archive", "Archive the chat", IN_LIST, "a", slash="archive", footer="archive"),
    Action("delete", "Delete the chat", IN_LIST, "d", slash="delete", footer="delete"),
    Action("delete_here", "Delete the chat, ^Z brings it back", IN_TRANSCRIPT, "X"),
    Action("messages", "Message by message", IN_TRANSCRIPT, "j k", footer="messages"),
    Action("fold", "Unfold or fold the message", IN_TRANSCRIPT, "Space"),
    Action("edit", "Edit as a branch", IN_TRANSCRIPT, "e", slash="edit", footer="edit"),
    Action("again", "Answer again", IN_TRANSCRIPT, "r", footer="again"),
    Action("fork_at", "Fork here", IN_TRANSCRIPT, "f", footer="fork"),
    Action("versions", "Older or newer version", IN_TRANSCRIPT, "[ ]", footer="versions"),
    Action(
        *("find", "Find in the chat, next, previous", IN_TRANSCRIPT, "/ n N"),
        slash="find",
        footer="find",
        argument="text",
    ),
    Action("tokens", "Token by token", IN_TRANSCRIPT, "t", slash="tokens", footer="tokens"),
    Action("prompt_text", "The prompt as the model reads it", ANSWERS, "", slash="prompt"),
    Action("copy", "Copy the answer", IN_TRANSCRIPT, "y", slash="copy", footer="copy"),
    Action(
        "copy_code", "Copy the last code block", IN_TRANSCRIPT, "Y", slash="code", footer="code"
    ),
    Action("blocks", "KV memory, block by block", MEMORY, "F3", "f3", "blocks"),
    Action("stats", "Speed, memory and chats over time", MEMORY, "F4", "f4", "stats"),
    Action("pin", "Keep this chat in memory", MEMORY, "", slash="pin", argument="system"),
    Action("unpin", "Let this chat be evicted", MEMORY, "", slash="unpin"),
    Action("token_step", "Token before or after", IN_TOKENS, "Left Right"),
    Action("token_row", "Row above or below", IN_TOKENS, "j k"),
    Action("token_surprise", "Next or previous surprise", IN_TOKENS, "n N"),
    Action("token_other", "Another token in its place", IN_TOKENS, "Up Down"),
    Action("token_take", "Go on with it in a fork", IN_TOKENS, "Enter"),
    Action("token_fork", "Fork behind the token", IN_TOKENS, "f"),
    Action("token_colours", "Surprise in colours", IN_TOKENS, "c"),
    Action("compare_number", "Select an answer by its number", IN_COMPARE, "1-9", footer="select"),
    Action("compare_step", "Select the answer at that side", IN_COMPARE, "Left Right"),
    Action(
        *("compare_go_on", "Continue with this one in the chat", IN_COMPARE, "Enter"),
        footer="continue",
    ),
    Action(
        "compare_keep", "Keep the answer as a chat, or no longer", IN_COMPARE, "k", "k", "", "keep"
    ),
    Action("compare_keep_all", "Keep all as chats", IN_COMPARE, "K", "K"),
    Action(
        "compare_back",
        "Stop the answer; close what is open; leave",
        IN_COMPARE,
        "Esc",
        footer="stop",
    ),
    Action("compare_stop_others", "Stop all others", IN_COMPARE, "s", "s", "", "stop others"),
    Action("compare_stop_all", "Stop all", IN_COMPARE, "S", "S"),
    Action(
        "compare_zoom", "One answer on the whole screen, and back", IN_COMPARE, "z", "z", "", "zoom"
    ),
    Action(
        "compare_diff",
        "Differences: here, then on another answer",
        IN_COMPARE,
        "d",
        "d",
        "",
        "diff",
    ),
    Action("compare_blind", "Hide which model is which, and shuffle", IN_COMPARE, "b", "b"),
    Action(
        "compare_vote", "Vote for the answer; names are told then", IN_COMPARE, "v", "v", "", "vote"
    ),
    Action(
        "compare_write", "Write to the kept answers, or to all", IN_COMPARE, "i", "i", "", "write"
    ),
    Action("compare_rerun", "Have the answer made anew", IN_COMPARE, "r", "r", "", "again"),
    Action("compare_more", "One more sample like it", IN_COMPARE, "n", "n", "", "one more"),
    Action("compare_resume", "Continue an answer that was stopped", IN_COMPARE, "F5", "f5"),
    Action("compare_copy", "Copy the answer", IN_COMPARE, "y", "y"),
    Action("compare_delete", "Delete the compare; what is kept stays", IN_COMPARE, "x", "x"),
    Action("compare_scroll", "Scroll the answer", IN_COMPARE, "PgUp PgDn g G"),
    Action("compare_leave", "Back to the chat; what runs goes on", IN_COMPARE, "q", "q"),
    Action("history_open", "Open the chat, at what was found", IN_HISTORY, "Enter"),
    Action("history_choose", "Choose", IN_HISTORY, "Up Down"),
    Action("history_part", "Search line or list", IN_HISTORY, "Tab"),
    Action("history_filter", "All, archived, deleted", IN_HISTORY, "^F, in the list f"),
    Action("history_search", "Search, from the list", IN_HISTORY, "/"),
    Action("history_rename", "Rename, in the list", IN_HISTORY, "r"),
    Action("history_archive", "Archive or list again, in the list", IN_HISTORY, "a"),
    Action("history_delete", "Delete or restore, in the list", IN_HISTORY, "d"),
    Action("history_export", "Export to a file, in the list", IN_HISTORY, "x"),
    Action("history_back", "Back to the chat", IN_HISTORY, "Esc"),
    Action("blocks_part", "Map or prefix tree", IN_BLOCKS, "Tab"),
    Action("blocks_view", "Colours: chat, refs, age, state", IN_BLOCKS, "m"),
    Action("blocks_pin", "Pin the branch, or unpin it", IN_BLOCKS, "p"),
    Action("blocks_evict", "Evict what nobody uses of it", IN_BLOCKS, "x"),
    Action("blocks_chat", "Go to its chat", IN_BLOCKS, "Enter"),
    Action("blocks_model", "Memory of the next model", IN_BLOCKS, "o"),
    Action("why", "Why was this not cached?", IN_TRANSCRIPT, "w", slash="why"),
    Action("palette", "All commands", APP, "^P", "ctrl+p", "commands", footer="commands"),
    Action("help", "Help", APP, "F1", "f1", "help", footer="help"),
    Action("settings", "What is set, where files are", APP, "F2", "f2", "settings"),
    Action(
        *("theme", "Dark or light, remembered", APP, "", "", "theme"),
        argument="dark, light, contrast or ansi",
    ),
    Action("quit", "Quit", APP, "^Q", "ctrl+q", "quit"),
)
# with the focus elsewhere the keys of that place take the room of these
IN_PROMPT = frozenset({"send", "new_chat", "switch_chat", "options"})
_OF_THE_USER: dict[str, str] = {}
BY_ID = {action.id: action for action in ACTIONS}
BY_SLASH = {action.slash: action for action in ACTIONS if action.slash}
OTHER_NAMES = {"title": "rename", "resume": "continue", "exit": "quit"}
"""What other programs call a command: it works, and is told by its own name alone."""


def footer_actions(focus: str) -> Iterator[Action]:
    """What the bottom line tells while `focus` (prompt, transcript or list) has the focus."""
    told = [action for action in ACTIONS if action.footer and action.is_of_chat]
    if focus != "prompt":
        yield from (a for a in told if a.where == focus)
    for action in told:
        if not action.where and (focus == "prompt" or action.id not in IN_PROMPT):
            yield action


def commands() -> Iterator[Action]:
    """What palette and slash commands offer."""
    return iter(BY_SLASH.values())


def names_of(action: Action) -> str:
    """What a command is called behind a slash, here and in other programs."""
    others = [name for name, slash in OTHER_NAMES.items() if slash == action.slash]
    return " ".join(f"/{name}" for name in (action.slash, *others))


def actions_of(group: str) -> Iterator[Action]:
    """What a whole screen has keys for, in the order of its help."""
    return (action for action in ACTIONS if action.group == group)


def screen_bindings(group: str) -> Iterator[Binding]:
    """What a whole screen binds of the table, and the key that opens the help everywhere."""
    yield from (action.binding for action in actions_of(group) if action.keys)
    yield Binding(BY_ID["help"].keys, "help", "Help", id="help", show=False, priority=True)


def is_typed(keys: str) -> bool:
    """Whether a key is a letter or a digit, which a line to write in takes as text."""
    return any(len(key) == 1 for key in keys.split(","))


def key_of(action_id: str) -> str:
    """How the key of an action is written, for texts that tell it."""
    return BY_ID[action_id].shown


def show_keymap(keymap: Mapping[str, str]) -> None:
    """Have every place that tells keys tell these, by action; others are as usual. UI thread."""
    _OF_THE_USER.clear()
    _OF_THE_USER.update({action_id: _shown_keys(keys) for action_id, keys in keymap.items()})


def _shown_keys(keys: str) -> str:
    """Textual's names as people read them: ctrl+n is ^N, alt+left is Alt+Left."""
    return " ".join(_shown_key(key) for key in keys.split(",") if key)


def _shown_key(key: str) -> str:
    *modifiers, last = key.split("+")
    if not modifiers and len(last) == 1:
        return last
    name = last.upper() if len(last) == 1 or last[1:].isdigit() else last.capitalize()
    if modifiers == ["ctrl"] and len(name) == 1:
        return f"^{name}"
    return "+".join([*(m.capitalize() for m in modifiers), name])
