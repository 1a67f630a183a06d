"""Sweep: every HPA under every setting of a grid."""
