"""Settings of one server, checked when made."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from localpaged.errors import ConfigError

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8000
API_KEY_VARIABLE = "LOCALPAGED_API_KEY"
MAX_PORT = 65_535
MIN_KEY_CHARS = 8
MAX_REQUESTS = 1_000  # the engine's queue takes a few more, for the chat beside the server
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where to listen, for whom, and how much of it. Port 0 is any that is free.

    `api_key` is asked of every request but those after the server's health; without one only
    loopback addresses are possible. Requests from loopback must name a host of `allowed_hosts` or
    this machine itself; web pages of `origins` alone may ask. `body_bytes` bounds a request,
    `max_requests` those that are open, `read_s` how long one may take to arrive, `stall_s` how
    long a reader may take nothing, `grace_s` how long open answers may go on at the end.
    Raises ConfigError.
    """

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT
    api_key: str = field(default="", repr=False)
    allowed_hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    body_bytes: int = 16 << 20
    max_requests: int = 128
    read_s: float = 30.0
    stall_s: float = 60.0
    grace_s: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.port <= MAX_PORT:
            raise ConfigError(f"A port is a number from 0 to {MAX_PORT:,}, not {self.port:,}.")
        if not 1 <= self.max_requests <= MAX_REQUESTS:
            raise ConfigError(
                f"1 to {MAX_REQUESTS:,} requests may be open at once, not {self.max_requests:,}."
            )
        if self.api_key and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise ConfigError("The API key has characters that no HTTP header can carry.")
        if self.api_key and len(self.api_key) < MIN_KEY_CHARS:
            raise ConfigError(
                f"The API key has {len(self.api_key)} characters; {MIN_KEY_CHARS} are the least.",
                hint="Make a long one, for example: openssl rand -hex 24",
            )
        if not self.is_loopback and not self.api_key:
            raise ConfigError(
                f"{self.host} can be reached from other machines; that needs an API key.",
                hint=f"Set {API_KEY_VARIABLE}, or listen on {DEFAULT_HOST}.",
            )
        for origin in self.origins:
            if origin == "*" or "://" not in origin or origin.endswith("/"):
                raise ConfigError(
                    f"{origin!r} is not an origin that may ask.",
                    hint="Write it as https://host or http://host:port.",
                )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def address(text: str, *, default_port: int = DEFAULT_PORT) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `HOST`, `:PORT`, `PORT` or "". Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    if text.isascii() and text.isdigit():
        host, port = "", text
    elif not colon or text.endswith("]") or (host.count(":") and not host.startswith("[")):
        host, port = text, str(default_port)
    host = host.removeprefix("[").removesuffix("]") or DEFAULT_HOST
    if not (port.isascii() and port.isdigit()):
        raise ConfigError(
            f"{text!r} is not an address.", hint="Write HOST:PORT, as 127.0.0.1:8000."
        )
    return host, int(port)
