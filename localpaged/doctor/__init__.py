"""What this machine and this installation are, and what to do about what is wrong. No screen."""
