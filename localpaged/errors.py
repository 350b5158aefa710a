"""Every error a user can meet, each with one sentence and a hint.

LocalPagedError(message, hint)
├── ConfigError            a setting, option or parameter is wrong
│   └── BadParameter       a sampling or request parameter is out of range
├── ModelError
│   ├── ModelNotFound      no such model here
│   ├── ModelOffline       the model must be fetched and nothing answers
│   ├── BadModelFile       cut, damaged or hostile file
│   └── UnsupportedModel   architecture, quantisation or tokenizer we do not run
├── EngineError
│   ├── PromptTooLong      the prompt does not fit the model's context
│   │   └── PromptEndless  nor does its longest message alone, in any context of the model
│   ├── NoRoom             the request can never fit the KV pool
│   ├── StepFailed         the forward pass of this request failed
│   │   └── GrammarFailed  the answer cannot go on by its grammar
│   ├── EndpointError      a remote endpoint is away, refuses or breaks off
│   └── EngineStopped      the engine is gone; carries the cause
├── ChatError              this chat or answer cannot do that now
│   └── BadChatFile        a file of chats cannot be read or written
├── StatsError             a running program's stats cannot be read
│   └── EngineGone         nobody listens there any more
└── StoreError
    ├── DatabaseDamaged    not a database of ours, or corrupt
    ├── DatabaseTooNew     written by a newer localpaged
    ├── DiskFull           a write did not fit
    └── NotInHistory       no such chat, turn or message: like a model that is not there

`assert` is for our own bugs; everything a user can cause is one of these.
`exit_code` is what the command line returns for it (README, "Exit codes").
"""

from __future__ import annotations

from typing import ClassVar


class LocalPagedError(Exception):
    """One clear sentence for the user, and a hint on what to do about it."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class ConfigError(LocalPagedError):
    """A setting, option or parameter is wrong."""

    exit_code = 2


class BadParameter(ConfigError):
    """A sampling or request parameter is out of range."""


class ModelError(LocalPagedError):
    """The model cannot be used."""

    exit_code = 4


class ModelNotFound(ModelError):
    """No model of that name or at that path."""


class ModelOffline(ModelError):
    """The model must be fetched and the network does not answer."""


class BadModelFile(ModelError):
    """The file is cut, damaged or not what it claims to be."""


class UnsupportedModel(ModelError):
    """Architecture, quantisation or tokenizer that localpaged does not run."""


class EngineError(LocalPagedError):
    """The engine refused or failed a request."""

    exit_code = 5


class PromptTooLong(EngineError):
    """The prompt leaves no room in the model's context."""


class PromptEndless(PromptTooLong):
    """One message is longer than all that the model can ever read: no shorter chat helps."""


class NoRoom(EngineError):
    """The request can never fit the KV pool."""


class StepFailed(EngineError):
    """The forward pass that served this request failed."""


class GrammarFailed(StepFailed):
    """The answer cannot go on by the grammar that it was asked with."""


class EndpointError(EngineError):
    """A remote endpoint is away, refuses a request or breaks an answer off."""


class EngineStopped(EngineError):
    """The engine thread is gone; the message carries the cause."""


class ChatError(LocalPagedError):
    """This chat or answer cannot do that now."""


class BadChatFile(ChatError):
    """A file of chats cannot be read or written."""


class StatsError(LocalPagedError):
    """A running program's stats cannot be read."""


class EngineGone(StatsError):
    """Nobody listens there any more."""

    def __init__(self) -> None:
        super().__init__("The program has ended.")


class StoreError(LocalPagedError):
    """The history cannot be read or written."""

    exit_code = 6


class DatabaseDamaged(StoreError):
    """Not a database of ours, or corrupt."""


class DatabaseTooNew(StoreError):
    """Written by a newer localpaged."""


class DiskFull(StoreError):
    """A write did not fit on the disk."""


class NotInHistory(StoreError):
    """No such chat, turn or message."""

    exit_code = 4
