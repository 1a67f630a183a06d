"""Fit of the plant: usage, base, ceiling, start-up and noise of each workload."""
