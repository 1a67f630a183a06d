"""Kubernetes objects as the controller reads them."""
