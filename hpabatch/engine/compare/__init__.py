"""Comparison of two replays or runs, with the cause of each difference."""
