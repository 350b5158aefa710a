"""Code to coloured lines, by Pygments. The language must be named: guessing is slow and wrong."""

from __future__ import annotations

from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Token
from pygments.util import ClassNotFound

from localpaged.tui.markdown.line import EMPHASIS, Role, Run
from localpaged.tui.markdown.wrap import TAB_CELLS

# beyond this a fence stays plain: colouring would cost a visible pause
MAX_HIGHLIGHT_CHARS = 20_000
PLAIN_LANGUAGES = frozenset({"", "text", "txt", "plain", "plaintext", "output", "console"})

_ROLES: dict[object, tuple[Role, int]] = {
    Token.Comment: (Role.CODE_COMMENT, EMPHASIS),
    Token.Keyword: (Role.CODE_KEYWORD, 0),
    Token.Keyword.Type: (Role.CODE_TYPE, 0),
    Token.Literal.String: (Role.CODE_STRING, 0),
    Token.Literal.Number: (Role.CODE_NUMBER, 0),
    Token.Name.Function: (Role.CODE_NAME, 0),
    Token.Name.Class: (Role.CODE_TYPE, 0),
    Token.Name.Builtin: (Role.CODE_TYPE, 0),
    Token.Name.Decorator: (Role.CODE_NAME, 0),
    Token.Name.Tag: (Role.CODE_KEYWORD, 0),
    Token.Name.Attribute: (Role.CODE_NAME, 0),
    Token.Operator.Word: (Role.CODE_KEYWORD, 0),
    Token.Generic.Deleted: (Role.ERROR, 0),
    Token.Generic.Inserted: (Role.SUCCESS, 0),
    Token.Generic.Heading: (Role.CODE_KEYWORD, 0),
    Token.Generic.Subheading: (Role.CODE_NAME, 0),
}


def code_lines(code: str, language: str) -> list[list[Run]]:
    """Return one list of runs a line; plain where the language is unknown or the code is huge."""
    code = code.expandtabs(TAB_CELLS)
    lexer = None if len(code) > MAX_HIGHLIGHT_CHARS else _lexer(language.lower())
    if lexer is None:
        return [[Run(line, Role.CODE)] if line else [] for line in code.split("\n")]
    lines: list[list[Run]] = [[]]
    for token, text in lexer.get_tokens(code):
        role, marks = _role(token)
        first, *others = text.split("\n")
        if first:
            lines[-1].append(Run(first, role, marks))
        lines.extend([Run(line, role, marks)] if line else [] for line in others)
    # the lexer ends its input with a newline
    lines.pop()
    return lines or [[]]


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    if language in PLAIN_LANGUAGES:
        return None
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=True)
    except ClassNotFound:
        return None


@lru_cache(maxsize=512)
def _role(token: object) -> tuple[Role, int]:
    while token is not None:
        if token in _ROLES:
            return _ROLES[token]
        token = getattr(token, "parent", None)
    return Role.CODE, 0
