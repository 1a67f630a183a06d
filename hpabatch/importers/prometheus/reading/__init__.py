"""Gauges as changes, choice of sources, and windows of time."""
