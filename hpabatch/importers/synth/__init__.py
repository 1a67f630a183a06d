"""Synthetic histories: the demo data."""
