"""What Kubernetes objects say: frozen dataclasses; the standard library and `layout` only."""
