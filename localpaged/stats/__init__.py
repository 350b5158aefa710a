"""What a running program tells of itself, from any terminal: snapshots, their socket, past runs."""
