"""Chat history in SQLite. Knows nothing of the engine or the screen."""
