"""Replay: decisions, their reasons, summary and score."""
