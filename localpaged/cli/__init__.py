"""The commands, and the border that turns what goes wrong into a sentence and an exit code."""
