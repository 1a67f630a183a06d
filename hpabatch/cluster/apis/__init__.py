"""Metrics APIs and scale subresources."""
