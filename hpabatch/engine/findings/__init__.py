"""Findings: one catalogue of what is wrong with HPAs, and what of it a history shows."""
