"""Prometheus client: queries, requests, responses and their samples."""
