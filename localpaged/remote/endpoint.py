"""Where a remote model answers, and how it is asked. Frozen; no key is ever in it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import SplitResult, urlsplit

from localpaged.errors import ConfigError
from localpaged.plain_text import visible
from localpaged.remote.dialects import DIALECTS, EXTRA_SAMPLING

AUTO = "auto"
KINDS = (AUTO, *DIALECTS)
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_TIMEOUT_S = 3_600.0
_KEY_HEADERS = ("authorization", "proxy-authorization", "api-key", "x-api-key", "cookie")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]{0,2000}[\x21-\x7e])?")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One model behind an OpenAI-compatible API. Times are in seconds. Raises ConfigError.

    `url` ends before `/chat/completions` and has no slash at its end; `model` "" is the only one
    that the server has. `key_env` and `key_keyring` ("service/user") say where its key is kept.
    `context` bounds prompt and answer, in tokens, where the server does not tell. `sampling` are
    parameters that it knows beyond its kind's; `can_continue` None is what its kind can. One that
    no section of the config file has `is_by_address`.
    """

    name: str
    url: str
    model: str = ""
    kind: str = AUTO
    key_env: str = ""
    key_keyring: str = ""
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    context: int | None = None
    connect_timeout_s: float = 10.0
    timeout_s: float = 120.0
    idle_timeout_s: float = 60.0
    sampling: tuple[str, ...] = ()
    can_continue: bool | None = None
    plain_http: bool = False
    is_by_address: bool = False

    def __post_init__(self) -> None:
        parts = _checked_url(self.url)
        if parts.query or parts.fragment:
            raise ConfigError(
                "The URL of an endpoint ends with its path, as http://host:8000/v1.",
                hint="Keys belong in the environment: key_env names the variable.",
            )
        for name in ("connect_timeout_s", "timeout_s", "idle_timeout_s"):
            value = getattr(self, name)
            if not 0 < value <= MAX_TIMEOUT_S:
                raise ConfigError(f"{name} must be above 0 to {MAX_TIMEOUT_S:g}, not {value!r}.")
        if self.kind not in KINDS:
            raise ConfigError(f"kind must be one of {', '.join(KINDS)}, not {self.kind!r}.")
        if self.context is not None and self.context < 1:
            raise ConfigError(f"context must be at least 1 token, not {self.context}.")
        unknown = sorted(set(self.sampling) - EXTRA_SAMPLING.keys())
        if unknown:
            names = ", ".join(EXTRA_SAMPLING)
            raise ConfigError(f"sampling may name {names}, not {visible(unknown[0])!r}.")
        self._check_keys()

    @property
    def has_key(self) -> bool:
        """Whether a key is sent."""
        return bool(self.key_env or self.key_keyring)

    @property
    def host(self) -> str:
        """Host and port, as they are written."""
        return urlsplit(self.url).netloc

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine."""
        return _is_loopback(urlsplit(self.url).hostname or "")

    @property
    def choice(self) -> str:
        """How a chat keeps it, so that a later run finds it again."""
        if not self.is_by_address:
            return self.name
        return f"{self.url}#{self.model}" if self.model else self.url

    def _check_keys(self) -> None:
        if self.key_env and self.key_keyring:
            raise ConfigError("A key is in key_env or in key_keyring, not in both.")
        if self.key_keyring and not all(self.key_keyring.partition("/")):
            raise ConfigError('key_keyring is written as "service/user".')
        for header, value in self.headers:
            if header.lower() in _KEY_HEADERS:
                raise ConfigError(
                    f"The header {header} would put a key into a file.",
                    hint="key_env names the environment variable that has the key.",
                )
            if not _HEADER.fullmatch(header) or not _HEADER_VALUE.fullmatch(value):
                raise ConfigError(f"The header {visible(header[:100])!r} cannot be sent.")
        is_plain = self.url.startswith("http://") and not self.is_loopback
        if self.has_key and is_plain and not self.plain_http:
            raise ConfigError(
                f"The key would be sent unencrypted to {visible(self.host)}.",
                hint="Use https://, or set plain_http = true if you trust the network.",
            )


def is_url(choice: str) -> bool:
    """Whether a model was chosen by an address."""
    return choice.lower().startswith(("http://", "https://"))


def find_endpoint(choice: str, known: Sequence[Endpoint]) -> Endpoint | None:
    """Return the endpoint that `choice` means: a name, name#model, or an address.

    An address that a known endpoint has is asked in that one's way, with its key; any other is
    asked without a key. None for what is no endpoint. Raises ConfigError for an address that
    cannot be.
    """
    if is_url(choice):
        return _by_url(choice, known)
    name, _, model = choice.partition("#")
    for endpoint in known:
        if endpoint.name.lower() == name.lower():
            return replace(endpoint, name=choice, model=model) if model else endpoint
    return None


def _by_url(choice: str, known: Sequence[Endpoint]) -> Endpoint:
    parts = _checked_url(choice)
    model = parts.fragment
    url = parts._replace(fragment="").geturl().rstrip("/")
    name = f"{model}@{parts.netloc}" if model else parts.netloc
    same = next((e for e in known if e.url.rstrip("/").lower() == url.lower()), None)
    if same is None:
        return Endpoint(name=name, url=url, model=model, is_by_address=True)
    if not model or model == same.model:
        return same
    return replace(same, name=f"{same.name}#{model}", model=model)


def _checked_url(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host or parts.scheme not in ("http", "https") or visible(url) != url or " " in url:
        raise ConfigError(
            "This is not the address of an endpoint.",
            hint="Write it as http://host:8000/v1 or https://host/v1, with #model after it.",
        )
    if "@" in parts.netloc:
        # neither the name nor the password is repeated
        raise ConfigError(
            "The address of an endpoint may not contain a user or password.",
            hint="Give it a [remote.NAME] section in the config file with key_env = VARIABLE.",
        )
    return parts


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
