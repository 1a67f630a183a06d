"""Fit of the plant: usage, base, ceiling and start-up of each workload."""
