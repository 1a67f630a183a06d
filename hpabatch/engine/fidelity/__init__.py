"""Fidelity: rules and plant against the recording."""
