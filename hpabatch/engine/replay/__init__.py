"""Replay: decisions, their reasons, summary, score and sensitivity."""
