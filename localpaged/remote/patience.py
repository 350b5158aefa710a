"""How often an endpoint that did not hear a request is asked again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """How many tries a request has, and how many seconds lie between the first two."""

    tries: int = 4
    first_wait_s: float = 0.5

    def wait_s(self, attempt: int, retry_after: str = "") -> float:
        """Seconds to wait after try number `attempt`, counted from 1; what the server says wins."""
        # the other form, a date, is as long as the usual wait: clocks differ
        if retry_after.strip().isdecimal():
            return float(retry_after.strip()[:9])
        return float(self.first_wait_s * 2 ** (attempt - 1))
