"""Why a request ended: apart from the events, so that who only reads it need not make them."""

from __future__ import annotations

from enum import StrEnum


class FinishReason(StrEnum):
    """Why a request ended without an error.

    The engine never says `REPEATED`: whoever reads an answer ends it for that.
    """

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    REPEATED = "repeated"
