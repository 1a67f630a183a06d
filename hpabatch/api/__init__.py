"""Python API: recordings and their results."""
