"""Kubernetes clusters: connection, list and watch, and what they show, decoded."""
