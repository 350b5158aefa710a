"""Textual's driver of the terminal, which is held and goes on between two messages.

Textual gives the terminal back and takes it again inside of the signals' handlers: whatever the
program did at that moment is still half done, such as a write that has the lock of the output, and
then it waits for itself for ever. And it expects that only SIGTSTP stops a program. SIGSTOP tells
nobody, and SIGCONT may come to a program that runs: it would take the terminal a second time, two
threads would read its keys, and the shell would get it back without echo. A byte that is no UTF-8
would end the program.
"""

from __future__ import annotations

import os
import signal
import threading
from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Callable
from functools import partial

from textual.drivers import linux_driver
from textual.drivers.linux_driver import LinuxDriver


class OwnDriver(LinuxDriver):
    """Invariant: outside of `_leave_and_take` and an editor one thread reads keys and one writes.

    Signals arrive in the UI's thread, at any moment; what they ask for is done by its loop.
    """

    _waits_for_cont = False

    def run_input_thread(self) -> None:
        """Read keys until told to end; bytes that are no UTF-8 become marks, as in a file."""
        linux_driver.getincrementaldecoder = _forgiving_decoder  # type: ignore[assignment, attr-defined]
        super().run_input_thread()

    def _sigtstp_application(self, *_: object) -> None:
        if self._auto_restart and not self._waits_for_cont:
            self._soon(partial(self._leave_and_take, self._stop))
        else:
            # an editor has the terminal, and was stopped as well: the shell waits for both
            _stop_here()

    def _sigcont_application(self, *_: object) -> None:
        if self._waits_for_cont:
            self._waits_for_cont = False
        elif self._auto_restart:
            # nobody knows who had the terminal meanwhile, and what it is like now
            self._soon(partial(self._leave_and_take, _nothing))

    def _soon(self, act: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(act)

    def _leave_and_take(self, meanwhile: Callable[[], None]) -> None:
        """Give the terminal back and take it again; nothing is drawn in between."""
        # a terminal that is closed sends SIGCONT behind its SIGHUP
        if not (self._auto_restart and self._has_terminal):
            return
        self.suspend_application_mode()
        meanwhile()
        self._must_signal_resume = True
        before = self._writer_thread
        # in the background a program is stopped once more, each time it wants the terminal
        while self._writer_thread is before:
            self.resume_application_mode()

    def _stop(self) -> None:
        self._waits_for_cont = True
        _stop_here()

    @property
    def _has_terminal(self) -> bool:
        writer = self._writer_thread
        return writer is not None and writer.is_alive() and os.isatty(self.fileno)


def _forgiving_decoder(encoding: str) -> Callable[[], IncrementalDecoder]:
    return partial(getincrementaldecoder(encoding), errors="replace")


def _stop_here() -> None:
    # to this thread alone: it is then held before it does anything else
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def _nothing() -> None:
    pass
