"""The live loop: setup, warm-up, passes on schedule."""
