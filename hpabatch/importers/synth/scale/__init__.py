"""Synthetic histories of any size, from a seed."""
