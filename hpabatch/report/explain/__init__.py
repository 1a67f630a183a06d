"""Explanations as text and data."""
