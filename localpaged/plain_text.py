"""Makes untrusted text safe to print: what would drive a terminal is shown as a visible mark.

Text from models, model files, users and peers may hold escape sequences, cursor movements,
line overprinting or bidirectional overrides. Printed through `visible`, none of them acts:
control characters become their Unicode pictures (ESC is ␛), all others become `<U+202E>`.
The stored text is never changed; this is for the way to the screen alone.
"""

from __future__ import annotations

import re

# What acts on a terminal or hides text: C0 and C1 controls, the soft hyphen, bidirectional
# controls, zero-width characters but the two joiners that scripts and emoji need, line and
# paragraph separators, invisible operators, interlinear marks, tags, lone surrogates and
# noncharacters.
_UNSAFE = (
    "\x00-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ufdd0-\ufdef\ufffe\uffff"
    "\ud800-\udfff\U000e0000-\U000e00ff\U0001d173-\U0001d17a"
)
_UNSAFE_ANYWHERE = re.compile(f"[{_UNSAFE}]")
_UNSAFE_IN_LINES = re.compile(f"\r\n|(?![\n\t])[{_UNSAFE}]")
_CONTROL_PICTURES = 0x2400
_DELETE_PICTURE = "\u2421"


def visible(text: str, *, multiline: bool = False) -> str:
    """Return `text` with everything that acts on a terminal replaced by a visible mark.

    `multiline` keeps line feeds and tabs, and shows a Windows line end as a plain one.
    """
    pattern = _UNSAFE_IN_LINES if multiline else _UNSAFE_ANYWHERE
    return pattern.sub(_mark, text)


def _mark(match: re.Match[str]) -> str:
    character = match[0]
    if character == "\r\n":
        return "\n"
    code = ord(character)
    if code < 0x20:
        return chr(_CONTROL_PICTURES + code)
    return _DELETE_PICTURE if code == 0x7F else f"<U+{code:04X}>"
