"""The looks: a calm ground, one accent, a colour for each role of text.

Dark and light are for terminals with many colours, `contrast` for eyes that want more of it; `ansi`
has the terminal's own sixteen colours and its ground. Without colours (NO_COLOR) there is `plain`.
"""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from types import MappingProxyType
from typing import NamedTuple

from rich.console import Console
from textual.theme import BUILTIN_THEMES, Theme

from localpaged.tui.markdown.line import EMPHASIS, STRIKE, STRONG, UNDERLINE, Role

DARK = "localpaged-dark"
LIGHT = "localpaged-light"
CONTRAST = "localpaged-contrast"
ANSI = "localpaged-ansi"
PLAIN = "localpaged-plain"
NAMES = {"dark": DARK, "light": LIGHT, "contrast": CONTRAST, "ansi": ANSI}
"""What a person calls the themes."""

_DARK_ROLES = {
    Role.TEXT: "#cfd4dd",
    Role.DIM: "#8a92a2",
    Role.FAINT: "#575e6d",
    Role.ACCENT: "#7fb0e8",
    Role.HEADING: "#a9c8f0",
    Role.USER: "#eef1f6",
    Role.CODE_INLINE: "#e3c08d",
    Role.LINK: "#86b7ea",
    Role.QUOTE: "#98a0af",
    Role.RULE: "#3b4250",
    Role.BULLET: "#7fb0e8",
    Role.SUCCESS: "#97c28a",
    Role.WARNING: "#e0b26c",
    Role.ERROR: "#e88388",
    Role.CODE: "#c6ccd8",
    Role.CODE_COMMENT: "#6f7889",
    Role.CODE_KEYWORD: "#bba2e6",
    Role.CODE_STRING: "#a3c590",
    Role.CODE_NUMBER: "#e3b17a",
    Role.CODE_NAME: "#86b7ea",
    Role.CODE_TYPE: "#7cc4bd",
    Role.CODE_LABEL: "#6f7889",
}
_LIGHT_ROLES = {
    Role.TEXT: "#2b3138",
    Role.DIM: "#5f6875",
    Role.FAINT: "#8b94a1",
    Role.ACCENT: "#2563b8",
    Role.HEADING: "#1d4f96",
    Role.USER: "#0f1419",
    Role.CODE_INLINE: "#8a4b08",
    Role.LINK: "#2563b8",
    Role.QUOTE: "#5f6875",
    Role.RULE: "#c9ced6",
    Role.BULLET: "#2563b8",
    Role.SUCCESS: "#2f7a3c",
    Role.WARNING: "#96600b",
    Role.ERROR: "#b3261e",
    Role.CODE: "#2b3138",
    Role.CODE_COMMENT: "#78828f",
    Role.CODE_KEYWORD: "#7a3fb4",
    Role.CODE_STRING: "#2f7a3c",
    Role.CODE_NUMBER: "#a35200",
    Role.CODE_NAME: "#2563b8",
    Role.CODE_TYPE: "#0b7a75",
    Role.CODE_LABEL: "#78828f",
}
_CONTRAST_ROLES = {
    Role.TEXT: "#ffffff",
    Role.DIM: "#d8d8d8",
    Role.FAINT: "#b4b4b4",
    Role.ACCENT: "#5fd7ff",
    Role.HEADING: "#5fd7ff",
    Role.USER: "#ffffff",
    Role.CODE_INLINE: "#ffd75f",
    Role.LINK: "#5fd7ff",
    Role.QUOTE: "#d8d8d8",
    Role.RULE: "#a8a8a8",
    Role.BULLET: "#5fd7ff",
    Role.SUCCESS: "#5fff87",
    Role.WARNING: "#ffd75f",
    Role.ERROR: "#ff8787",
    Role.CODE: "#ffffff",
    Role.CODE_COMMENT: "#b4b4b4",
    Role.CODE_KEYWORD: "#ffafff",
    Role.CODE_STRING: "#5fff87",
    Role.CODE_NUMBER: "#ffd75f",
    Role.CODE_NAME: "#5fd7ff",
    Role.CODE_TYPE: "#87ffff",
    Role.CODE_LABEL: "#b4b4b4",
}
_ANSI_ROLES = {
    Role.TEXT: "ansi_default",
    Role.DIM: "ansi_default",
    Role.FAINT: "ansi_bright_black",
    Role.ACCENT: "ansi_bright_blue",
    Role.HEADING: "ansi_bright_blue",
    Role.USER: "ansi_default",
    Role.CODE_INLINE: "ansi_magenta",
    Role.LINK: "ansi_bright_blue",
    Role.QUOTE: "ansi_default",
    Role.RULE: "ansi_bright_black",
    Role.BULLET: "ansi_bright_blue",
    Role.SUCCESS: "ansi_green",
    Role.WARNING: "ansi_yellow",
    Role.ERROR: "ansi_red",
    Role.CODE: "ansi_default",
    Role.CODE_COMMENT: "ansi_bright_black",
    Role.CODE_KEYWORD: "ansi_magenta",
    Role.CODE_STRING: "ansi_green",
    Role.CODE_NUMBER: "ansi_cyan",
    Role.CODE_NAME: "ansi_bright_blue",
    Role.CODE_TYPE: "ansi_cyan",
    Role.CODE_LABEL: "ansi_bright_black",
}
_MARK_STYLES = (
    (STRONG, "bold"),
    (EMPHASIS, "italic"),
    (STRIKE, "strike"),
    (UNDERLINE, "underline"),
)


def themes() -> tuple[Theme, ...]:
    """All of them, the dark one first."""
    return (
        _theme(DARK, _DARK_ROLES, _Grounds("#101318", "#161a21", "#1c212a", "#181d25", "#2f4a6b")),
        _theme(
            *(LIGHT, _LIGHT_ROLES),
            _Grounds("#fcfcfb", "#f2f3f5", "#e9ebee", "#f2f3f5", "#bcd6f5"),
            is_dark=False,
        ),
        _theme(
            CONTRAST,
            _CONTRAST_ROLES,
            _Grounds("#000000", "#000000", "#1c1c1c", "#121212", "#00479e"),
        ),
        _ansi(ANSI),
        _ansi(PLAIN, cursor="reverse"),
    )


class _Grounds(NamedTuple):
    """What text stands on: the screen, what lies over it, its edges, code, what is chosen."""

    screen: str
    surface: str
    panel: str
    code: str
    selection: str


def _theme(
    name: str,
    roles: dict[Role, str],
    grounds: _Grounds,
    *,
    is_dark: bool = True,
    is_ansi: bool = False,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Theme:
    """A theme of roles and grounds; `variables` go before those that follow from them."""
    return Theme(
        name=name,
        ansi=is_ansi,
        primary=roles[Role.ACCENT],
        secondary=roles[Role.HEADING],
        accent=roles[Role.ACCENT],
        warning=roles[Role.WARNING],
        error=roles[Role.ERROR],
        success=roles[Role.SUCCESS],
        foreground=roles[Role.TEXT],
        background=grounds.screen,
        surface=grounds.surface,
        panel=grounds.panel,
        dark=is_dark,
        variables={**_variables(roles, grounds), **variables},
    )


def _ansi(name: str, *, cursor: str = "bold") -> Theme:
    """The terminal's own colours; `cursor` is how a chosen row stands out."""
    ground = "ansi_default"
    grounds = _Grounds(ground, ground, ground, ground, selection="ansi_bright_black")
    own = {
        "surface": "ansi_default",
        "panel": "ansi_default",
        "input-cursor-background": "ansi_default",
        "input-cursor-foreground": "ansi_default",
        "input-cursor-text-style": "reverse",
        "block-cursor-text-style": cursor,
        "block-cursor-blurred-text-style": cursor,
    }
    variables = {**BUILTIN_THEMES["ansi-dark"].variables, **_variables(_ANSI_ROLES, grounds), **own}
    return _theme(name, _ANSI_ROLES, grounds, is_ansi=True, variables=variables)


def known_theme(name: str) -> str:
    """Return the theme that a person calls `name`; empty when there is none."""
    return name if name in NAMES.values() else NAMES.get(name.strip().casefold(), "")


def usual_theme() -> str:
    """Return what suits the terminal: where it has few colours, ours would become others."""
    has_few = Console(file=StringIO(), force_terminal=True).color_system in ("standard", None)
    return ANSI if has_few else DARK


def style_of(role: Role, marks: int = 0) -> str:
    """A role and its marks as a Textual style, with theme variables for the colours."""
    parts = [name for mark, name in _MARK_STYLES if marks & mark]
    parts.append(f"$role-{role}")
    if role.startswith("code") and role is not Role.CODE_INLINE:
        parts.append("on $code-ground")
    return " ".join(parts)


def _variables(roles: dict[Role, str], grounds: _Grounds) -> dict[str, str]:
    ground, selection = grounds.screen, grounds.selection
    return {
        **{f"role-{role}": colour for role, colour in roles.items()},
        "code-ground": grounds.code,
        "selection-ground": selection,
        "screen-selection-background": selection,
        "input-selection-background": selection,
        "input-cursor-background": roles[Role.ACCENT],
        "input-cursor-foreground": ground,
        "block-cursor-background": selection,
        "block-cursor-foreground": roles[Role.USER],
        "block-cursor-text-style": "none",
        "block-cursor-blurred-background": selection,
        "block-cursor-blurred-foreground": roles[Role.USER],
        "scrollbar": roles[Role.RULE],
        "scrollbar-hover": roles[Role.FAINT],
        "scrollbar-active": roles[Role.DIM],
        "scrollbar-background": ground,
        "scrollbar-background-hover": ground,
        "scrollbar-background-active": ground,
        "scrollbar-corner-color": ground,
    }
