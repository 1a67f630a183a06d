"""Synthetic histories of large fleets."""
