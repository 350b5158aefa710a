"""The parts of gpu_check.py: what is checked, how it is timed, and how it is told."""
