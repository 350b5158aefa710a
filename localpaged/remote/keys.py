"""Keys of endpoints: read when they are sent, kept nowhere, told to nobody."""

from __future__ import annotations

import os
import re
from importlib import import_module

from localpaged.errors import EndpointError
from localpaged.plain_text import visible
from localpaged.remote.endpoint import Endpoint

HIDDEN = "[key]"
MIN_SECRET_CHARS = 6
_SENDABLE = re.compile(r"[\x21-\x7e]{1,4096}")


def key_of(endpoint: Endpoint) -> str:
    """Return the key of an endpoint, "" for one without. Raises EndpointError, without the key."""
    if endpoint.key_env:
        key = os.environ.get(endpoint.key_env, "").strip()
        where = f"The environment variable {visible(endpoint.key_env)}"
        if not key:
            raise EndpointError(
                f"{where} with the key of {visible(endpoint.name)} is not set.",
                hint=f"Set it before localpaged starts: export {visible(endpoint.key_env)}=…",
            )
    elif endpoint.key_keyring:
        key = _from_keyring(endpoint)
        where = f"The keyring's entry {visible(endpoint.key_keyring)}"
    else:
        return ""
    if not _SENDABLE.fullmatch(key):
        raise EndpointError(f"{where} has characters that no key can have.")
    return key


def without_key(text: str, key: str) -> str:
    """Return a text of others with the key taken out: some repeat what they were sent."""
    if not key:
        return text
    text = text.replace(key, HIDDEN)
    # long beginnings tell as much, as "Incorrect key sk-abcdef…" does
    for length in range(len(key) - 1, MIN_SECRET_CHARS - 1, -1):
        text = text.replace(key[:length], HIDDEN)
    return text


def _from_keyring(endpoint: Endpoint) -> str:
    service, _, user = endpoint.key_keyring.partition("/")
    try:
        keyring = import_module("keyring")
    except ImportError as error:
        raise EndpointError(
            f"The key of {visible(endpoint.name)} is in the keyring, which is not installed.",
            hint="`pip install keyring`, or give key_env instead of key_keyring.",
        ) from error
    try:
        key = keyring.get_password(service, user)
    except Exception as error:  # each backend has errors of its own
        raise EndpointError(
            f"The keyring cannot be opened: {visible(type(error).__name__)}.",
            hint="Unlock it, or give key_env instead of key_keyring.",
        ) from None
    if not key:
        raise EndpointError(
            f"The keyring has no entry {visible(endpoint.key_keyring)}.",
            hint=f"Add it: keyring set {visible(service)} {visible(user)}",
        )
    return str(key).strip()
