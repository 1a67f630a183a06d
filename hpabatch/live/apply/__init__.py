"""Writes to the cluster: who may be scaled, when, by which instance, and what is told of it."""
