"""Answers side by side, without a screen: what is asked, where panes stand, what is told."""
