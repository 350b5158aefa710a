"""The keys of the compare screen: its help and its bottom line come from here."""

from __future__ import annotations

KEYS = (
    ("Left Right  1 to 9", "Select an answer"),
    ("z", "One answer on the whole screen, and back"),
    ("Esc", "Stop the answer; close what is open; leave"),
    ("s", "Stop all others"),
    ("S", "Stop all"),
    ("k", "Keep the answer as a chat, or no longer"),
    ("K", "Keep all"),
    ("Enter", "Continue with this one in the chat"),
    ("i", "Write to the kept answers, or to all"),
    ("d", "Differences: d there and on another answer"),
    ("b", "Hide which model is which, and shuffle"),
    ("v", "Vote for the answer; names are told then"),
    ("r", "Have the answer made anew"),
    ("n", "One more sample like it"),
    ("F5", "Continue an answer that was stopped"),
    ("y", "Copy the answer"),
    ("x", "Delete the compare; what is kept stays"),
    ("PgUp PgDn g G", "Scroll the answer"),
    ("q", "Back to the chat; what runs goes on"),
)

# key, word, whether it is only told while something runs
HINTS = (
    ("1-9", "select", False),
    ("Enter", "continue", False),
    ("k", "keep", False),
    ("Esc", "stop", True),
    ("s", "stop others", True),
    ("z", "zoom", False),
    ("d", "diff", False),
    ("v", "vote", False),
    ("i", "write", False),
    ("r", "again", False),
    ("n", "one more", False),
    ("F1", "keys", False),
)
