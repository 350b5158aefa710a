"""A terminal chat application around one in-process paged LLM engine."""

__version__ = "0.1.0"
