"""What the history screen shows, as lines. Nothing of Textual."""
