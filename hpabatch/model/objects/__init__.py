"""HPA objects: decode, defaults, validate, encode."""
