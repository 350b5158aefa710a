"""Chats as files: Markdown to read, JSON with everything, and what others export.

Files are data. A name, a path or an id out of a file opens nothing and replaces nothing.
"""
