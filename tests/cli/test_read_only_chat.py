"""The chat in a home that cannot be written: one sentence when the terminal is given back."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from localpaged import paths
from localpaged.store.store import Store
from testkit.commands import command_line
from testkit.past_chats import write_chat
from testkit.terminals import in_terminal

IN_READ_ONLY = (
    *("unshare", "-m", "sh", "-c"),
    'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"',
)


@pytest.fixture
def read_only(listed_home: Path):
    """A chat is in the history; its folder is read-only for the command that is returned."""
    chat_id = write_chat([("about apples", "An apple.")], title="Fruit")
    folder = paths.data_dir()
    if os.geteuid() != 0:
        folder.chmod(0o500)
        yield lambda command: command
        folder.chmod(0o700)
    else:
        # to root nothing is forbidden but what the file system refuses
        prefix = [*IN_READ_ONLY, str(folder)]
        if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode != 0:
            pytest.skip("no file system can be made read-only here")
        yield lambda command: {**command, "args": [*prefix, *command["args"]]}
    store = Store.open()
    assert [chat.id for chat in store.chats()] == [chat_id]
    assert store.close() is None


def test_the_chat_says_so_and_gives_the_terminal_back(read_only):
    with in_terminal(read_only(command_line("chat"))) as terminal:
        assert terminal.wait() == 6
    # Where a row ends depends on how long the path of the home is.
    told = "".join(terminal.text.split())
    assert "cannotbewritten" in told and "LOCALPAGED_HOME" in told
    assert "Traceback" not in told


@pytest.mark.parametrize("command", [("ask", "Hi"), ("compare", "Hi"), ("history",)])
def test_every_command_says_so(read_only, command):
    done = subprocess.run(
        **read_only(command_line(*command)),
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (6, "")
    assert "cannot be written" in done.stderr and len(done.stderr.splitlines()) == 2
