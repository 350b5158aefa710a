"""Keys of the user's own: checked against the key table, then shown wherever keys are told."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from textual.keys import Keys

from localpaged.config_file import ConfigFile
from localpaged.config_schema import KEYMAP
from localpaged.tui.keys import ACTIONS, IN_COMPARE, WHOLE_SCREENS, Action, is_typed

Keymap = Mapping[str, str]
"""Keys by action, Textual's names, several with commas between them."""

MODIFIERS = ("ctrl", "alt", "shift", "super", "hyper", "meta")
NAMED_KEYS = frozenset(key.value for key in Keys if "+" not in key.value and "<" not in key.value)
USUAL_KEYS: Keymap = {}

# a terminal sends the same for these as for keys that are taken
IMPOSSIBLE = {
    "ctrl+i": "Tab",
    "ctrl+m": "Enter",
    "ctrl+j": "a new line",
    "ctrl+h": "Backspace",
}
FIXED = {"ctrl+z": "undo", **{f"alt+{n}": "number" for n in range(1, 10)}}
FIXED_ON = {
    IN_COMPARE: {
        **{str(number): "compare_number" for number in range(1, 10)},
        **dict.fromkeys(("left", "right", "h", "l"), "compare_step"),
        **dict.fromkeys(("g", "G", "pageup", "pagedown"), "compare_scroll"),
        **dict.fromkeys(("escape", "ctrl+c"), "compare_back"),
        "enter": "compare_go_on",
        "ctrl+q": "quit",
    }
}
_SPELLINGS = {"esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown"}
# what the prompt itself does with these cannot be taken from it
RESERVED = frozenset(
    {"enter", "tab", "shift+tab", "backspace", "delete", "space", "home", "end"}
    | {"up", "down", "left", "right", "pageup", "pagedown"}
    | {"shift+enter", "alt+enter", "ctrl+enter"}
)


def rebindable() -> Iterator[Action]:
    """The actions that may have other keys, or a first one: they work all over their screen."""
    return (action for action in ACTIONS if action.keys or action.slash)


def make_keymap(config: ConfigFile) -> dict[str, str]:
    """Return the file's keymap in Textual's names. Raises ConfigError, naming file and key."""
    known = {action.id: action for action in rebindable()}
    keymap: dict[str, str] = {}
    for action_id, keys in config.keymap:
        if action_id not in known:
            raise _unknown(config, action_id, known)
        # what is done with a letter may be done with another one: nothing is written there then
        may_be_typed = is_typed(known[action_id].keys)
        keymap[action_id] = ",".join(
            _key(config, action_id, key, may_be_typed=may_be_typed) for key in keys
        )
    _check_unique(config, known, keymap)
    return keymap


def _key(config: ConfigFile, action_id: str, written: str, *, may_be_typed: bool) -> str:
    if may_be_typed and len(written) == 1 and written.isalnum():
        return written
    *modifiers, last = (part.strip() for part in written.casefold().split("+"))
    last = _SPELLINGS.get(last, last)
    if last.startswith("^") and len(last) == 2:
        modifiers, last = [*modifiers, "ctrl"], last[1:]
    key = "+".join([*(m for m in MODIFIERS if m in modifiers), last])
    wrong = [m for m in modifiers if m not in MODIFIERS]
    is_key = last in NAMED_KEYS or (len(last) == 1 and last.isalnum())
    if wrong or not is_key or len(set(modifiers)) < len(modifiers):
        raise config.error(
            f"{KEYMAP}.{action_id}: there is no key {written!r}.",
            hint="Write keys as ctrl+n, alt+left, f7 or escape.",
        )
    if key in IMPOSSIBLE:
        raise config.error(
            f"{KEYMAP}.{action_id}: {written!r} cannot be told from {IMPOSSIBLE[key]}.",
            hint="Terminals send the same for both; take another key.",
        )
    is_text = len(last) == 1 and not set(modifiers) - {"shift"}
    if is_text or key in RESERVED:
        raise config.error(
            f"{KEYMAP}.{action_id}: the key {written!r} is for writing.",
            hint="Take one with ctrl or alt, or a function key.",
        )
    return key


def _unknown(config: ConfigFile, action_id: str, known: Mapping[str, Action]) -> Exception:
    if any(action.id == action_id for action in ACTIONS):
        return config.error(
            f"{KEYMAP}.{action_id}: the key of this action stays as it is.",
            hint=f"These can have other keys: {', '.join(known)}.",
        )
    near = difflib.get_close_matches(action_id, known, n=1)
    wish = f"; did you mean {near[0]}?" if near else "."
    return config.error(
        f"{KEYMAP}: there is no action {action_id!r}{wish}",
        hint=f"There are {', '.join(known)}.",
    )


def _check_unique(config: ConfigFile, known: Mapping[str, Action], keymap: Keymap) -> None:
    for group in (None, *WHOLE_SCREENS):
        keys = {
            action.id: keymap.get(action.id, action.keys)
            for action in known.values()
            if _is_at(action, group)
        }
        _check_keys(config, keys, FIXED if group is None else FIXED_ON.get(group, {}))


def _is_at(action: Action, group: str | None) -> bool:
    """Whether an action has its key on the chat screen, or on the whole screen of a group."""
    # what opens a screen closes it as well, and the help is everywhere
    return action.is_of_chat if group is None else action.group == group or action.id == "help"


def _check_keys(config: ConfigFile, keymap: Keymap, fixed: Mapping[str, str]) -> None:
    owner = dict(fixed)
    for action_id, keys in keymap.items():
        for key in filter(None, keys.split(",")):
            other = owner.setdefault(key, action_id)
            if other != action_id:
                raise config.error(
                    f"{KEYMAP}: the key {key} is given to {other} and to {action_id}.",
                    hint="Give one of the two another key.",
                )
