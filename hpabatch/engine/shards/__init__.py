"""Shards: lanes that are read together, packed and run through the kernels."""
