"""Proposed maps: import table --init."""
