"""The terminal UI: reads chat events and engine snapshots, never engine internals."""
