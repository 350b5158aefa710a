"""Markdown to lines of styled text, incrementally; knows nothing of Textual."""
