"""Kubernetes Horizontal Pod Autoscaler decisions in bulk, exactly as the controller makes them."""

__version__ = "0.1.0"
