"""Recorder of a live loop: segments of a store."""
