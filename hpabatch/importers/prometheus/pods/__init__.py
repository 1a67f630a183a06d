"""Pods: lives, owners, labels, states, requests, usage, scales."""
