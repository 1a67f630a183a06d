"""Use cases on arrays and frames; no input or output."""
