"""The token view: an answer as tokens, each with how likely it was."""
