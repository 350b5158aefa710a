"""The desktop around the terminal, where there is one."""

from __future__ import annotations

import os
import sys

_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")


def open_on_desktop(address: str) -> bool:
    """Open a web address in the desktop's browser; return whether there is one that took it."""
    # without a desktop Python would start a browser inside this very terminal
    if sys.platform != "darwin" and not any(name in os.environ for name in _VARIABLES):
        return False
    import webbrowser

    return webbrowser.open(address)
