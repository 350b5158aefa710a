"""The desktop around the terminal, where there is one."""

from __future__ import annotations

import os
import sys
from functools import partial

from localpaged.tui.helper_thread import HelperThread

VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")


async def open_on_desktop(address: str) -> bool:
    """Open a web address in the desktop's browser; return whether there is one that took it."""
    # without a desktop Python would start a browser inside this very terminal
    if sys.platform != "darwin" and not any(name in os.environ for name in VARIABLES):
        return False
    # finding out which browser there is asks other programs, which takes seconds with some
    return await HelperThread("browser").ask(partial(_open, address))


def _open(address: str) -> bool:
    import webbrowser

    return webbrowser.open(address)
