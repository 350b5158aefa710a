"""How chats are written into files."""

from enum import StrEnum


class FileFormat(StrEnum):
    """How a chat is written; the value is what its file's name ends with."""

    MARKDOWN = "md"
    JSON = "json"
