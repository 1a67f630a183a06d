"""Kubernetes objects, versions and messages as plain data; standard library and `layout` only."""
