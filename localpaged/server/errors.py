"""What is wrong with a request, in the words, statuses and bodies of OpenAI's API."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from localpaged.errors import (
    BadParameter,
    ConfigError,
    EngineError,
    EngineStopped,
    GrammarFailed,
    LocalPagedError,
    ModelError,
    NoRoom,
    PromptTooLong,
)
from localpaged.plain_text import visible

INVALID = "invalid_request_error"
SERVER = "server_error"
RATE_LIMIT = "rate_limit_error"

# what a sampling parameter of ours is called in the API, where that differs
_PARAMS = (
    *("temperature", "top_p", "top_k", "min_p", "seed", "max_tokens", "min_tokens", "stop"),
    *("logit_bias", "stop_token_ids"),
)


@dataclass(eq=False)
class ApiError(Exception):
    """An answer that is an error. `param` is the field that is wrong, as a path."""

    status: int
    message: str
    type: str = INVALID
    param: str | None = None
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """Return the body, shaped like OpenAI's."""
        return {
            "error": {
                "message": visible(self.message, multiline=True),
                "type": self.type,
                "param": None if self.param is None else visible(self.param),
                "code": self.code,
            }
        }


def invalid(message: str, *, param: str | None = None, code: str | None = None) -> ApiError:
    """Return the error for a request that cannot be understood or fulfilled."""
    return ApiError(400, message, param=param, code=code)


def invalid_type(param: str, expected: str, value: Any) -> ApiError:
    """Return the error for a value of the wrong type."""
    message = f"Invalid type for '{param}': expected {expected}, but got {_name_of(value)} instead."
    return invalid(message, param=param, code="invalid_type")


def unsupported(param: str, message: str) -> ApiError:
    """Return the error for what OpenAI's API has and this server has not."""
    return invalid(message, param=param, code="unsupported_parameter")


def too_long(*, context: int, prompt: int, answer: int | None, param: str) -> ApiError:
    """Return the error for a prompt, or prompt and answer, that exceed the context."""
    if answer is None:
        rest = f"However, your {param} resulted in {prompt} tokens."
        wish = f"Please reduce the length of the {param}."
    else:
        rest = (
            f"However, you requested {prompt + answer} tokens ({prompt} in the {param}, "
            f"{answer} in the completion)."
        )
        wish = f"Please reduce the length of the {param} or completion."
    message = f"This model's maximum context length is {context} tokens. {rest} {wish}"
    return invalid(message, param=param, code="context_length_exceeded")


def no_such_model(name: str, known: list[str]) -> ApiError:
    """Return the error for a model that is not served."""
    served = ", ".join(f"`{each}`" for each in known) or "none"
    return ApiError(
        404,
        f"The model `{name}` does not exist or you do not have access to it. Served: {served}.",
        param="model",
        code="model_not_found",
    )


def is_loading(name: str) -> ApiError:
    """Return the error for a model that is not ready yet."""
    return ApiError(
        503,
        f"The model `{name}` is loading. Try again soon.",
        type=SERVER,
        code="model_loading",
        headers={"Retry-After": "2"},
    )


def queue_full(limit: int) -> ApiError:
    """Return the error for one request too many."""
    return ApiError(
        429,
        f"{limit} requests are open already. Try again when some are done.",
        type=RATE_LIMIT,
        code="rate_limit_exceeded",
        headers={"Retry-After": "1"},
    )


def api_error_of(
    error: LocalPagedError, *, grammar_param: str | None = None, is_refusal: bool = False
) -> ApiError:
    """Return the answer for what the engine or a model says is wrong.

    `grammar_param` is the field that a grammar came from. With `is_refusal` nothing was computed.
    """
    if is_refusal and type(error) is EngineError:
        return invalid(error.message, code="invalid_value")  # it can never be answered
    text = f"{error.message} {error.hint}".strip()
    match error:
        case PromptTooLong():
            return invalid(text, param="messages", code="context_length_exceeded")
        case NoRoom():
            return invalid(text, code="context_length_exceeded")
        case BadParameter():
            first_word = text.partition(" ")[0]
            name = first_word if first_word in _PARAMS else grammar_param
            return invalid(error.message, param=name, code="invalid_value")
        case GrammarFailed():
            return invalid(text, param=grammar_param, code="invalid_value")
        case EngineStopped():
            return ApiError(503, text, type=SERVER, code="engine_stopped")
        case ConfigError() | ModelError():
            return invalid(text, param="messages", code="invalid_value")
    return ApiError(500, text, type=SERVER)


def _name_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a decimal"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
