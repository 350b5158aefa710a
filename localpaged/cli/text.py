"""Text on the command line: UTF-8, whatever the locale makes of its bytes."""

from __future__ import annotations

import os
from typing import Any

import click


class Text(click.ParamType[str]):
    """A text for a model or the history; paths stay as the operating system gives them."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text; bytes that are no UTF-8 are replacement marks, as those of stdin are."""
        text = str(value)
        try:
            text.encode()
        except UnicodeEncodeError:
            # Python keeps bytes that the locale has no characters for as lone surrogates
            return os.fsencode(text).decode("utf-8", "replace")
        return text


TEXT = Text()
