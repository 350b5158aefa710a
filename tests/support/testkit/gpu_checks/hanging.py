"""Never comes back after a first comparison."""

import threading

from gpu_check_parts.entries import Case


def run(bench):
    yield Case("operator", "before", 0.1)
    threading.Event().wait()
