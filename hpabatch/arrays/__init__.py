"""Struct-of-arrays layouts and the one place where objects become columns."""
