"""Output in the form of kubectl."""
