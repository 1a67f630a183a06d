"""Capacity plan: desired sizes without a maximum, requests, quotas, money."""
