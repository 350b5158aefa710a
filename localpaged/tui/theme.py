"""The looks: a calm ground, one accent, a colour for each role of text.

Dark and light are for terminals with many colours, `contrast` for eyes that want more of it; `ansi`
has the terminal's own sixteen colours and its ground. Without colours (NO_COLOR) there is `plain`.
"""

from __future__ import annotations

from io import StringIO

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
    dark = Theme(
        name=DARK,
        primary="#7fb0e8",
        secondary="#5b7ba3",
        accent="#7fb0e8",
        warning="#e0b26c",
        error="#e88388",
        success="#97c28a",
        foreground="#cfd4dd",
        background="#101318",
        surface="#161a21",
        panel="#1c212a",
        dark=True,
        variables=_variables(_DARK_ROLES, ground="#101318", code="#181d25", selection="#2f4a6b"),
    )
    light = Theme(
        name=LIGHT,
        primary="#2563b8",
        secondary="#6f8db5",
        accent="#2563b8",
        warning="#96600b",
        error="#b3261e",
        success="#2f7a3c",
        foreground="#2b3138",
        background="#fcfcfb",
        surface="#f2f3f5",
        panel="#e9ebee",
        dark=False,
        variables=_variables(_LIGHT_ROLES, ground="#fcfcfb", code="#f2f3f5", selection="#bcd6f5"),
    )
    contrast = Theme(
        name=CONTRAST,
        primary="#5fd7ff",
        secondary="#5fd7ff",
        accent="#5fd7ff",
        warning="#ffd75f",
        error="#ff8787",
        success="#5fff87",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#1c1c1c",
        dark=True,
        variables=_variables(
            _CONTRAST_ROLES, ground="#000000", code="#121212", selection="#00479e"
        ),
    )
    return dark, light, contrast, _ansi(ANSI), _ansi(PLAIN, cursor="reverse")


def _ansi(name: str, *, cursor: str = "bold") -> Theme:
    """The terminal's own colours; `cursor` is how a chosen row stands out."""
    variables = _variables(
        _ANSI_ROLES, ground="ansi_default", code="ansi_default", selection="ansi_bright_black"
    )
    return Theme(
        name=name,
        ansi=True,
        primary="ansi_bright_blue",
        secondary="ansi_cyan",
        accent="ansi_bright_blue",
        warning="ansi_yellow",
        error="ansi_red",
        success="ansi_green",
        foreground="ansi_default",
        background="ansi_default",
        surface="ansi_default",
        panel="ansi_default",
        dark=True,
        variables={
            **BUILTIN_THEMES["ansi-dark"].variables,
            **variables,
            "surface": "ansi_default",
            "panel": "ansi_default",
            "input-cursor-background": "ansi_default",
            "input-cursor-foreground": "ansi_default",
            "input-cursor-text-style": "reverse",
            "block-cursor-text-style": cursor,
            "block-cursor-blurred-text-style": cursor,
        },
    )


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


def _variables(roles: dict[Role, str], *, ground: str, code: str, selection: str) -> dict[str, str]:
    return {
        **{f"role-{role}": colour for role, colour in roles.items()},
        "code-ground": code,
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
