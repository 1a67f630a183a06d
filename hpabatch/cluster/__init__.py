"""Kubernetes clusters: connection, list and watch, decoded objects."""
