"""What a model's name on the command line means: one here, an endpoint's, or an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localpaged.chat.models import is_address
from localpaged.config import Settings
from localpaged.errors import ModelNotFound
from localpaged.models.registry import find_model, local_path

if TYPE_CHECKING:
    from localpaged.remote.endpoint import Endpoint


def check_model(choice: str, settings: Settings) -> str:
    """Return the name of the model that `choice` means, before anything is saved or opened.

    Raises ModelNotFound and ConfigError.
    """
    endpoint = _endpoint(choice, settings)
    if endpoint is not None:
        return endpoint.name
    try:
        return find_model(choice).name
    except ModelNotFound as error:
        if not settings.remotes:
            raise
        names = ", ".join(endpoint.name for endpoint in settings.remotes)
        raise ModelNotFound(error.message, hint=f"{error.hint} Endpoints: {names}.") from None


def kept_choice(name: str, settings: Settings) -> str:
    """Return how chats keep a model's name, so that it means the same in a later run."""
    endpoint = _endpoint(name, settings)
    if endpoint is not None:
        return endpoint.choice
    check_model(name, settings)
    entry = find_model(name)
    path = local_path(name)
    return str(path) if path is not None and entry.path == path else entry.name


def _endpoint(choice: str, settings: Settings) -> Endpoint | None:
    if not settings.remotes and not is_address(choice):
        return None
    from localpaged.remote.endpoint import find_endpoint

    return find_endpoint(choice, settings.remotes)
