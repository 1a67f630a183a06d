"""What Kubernetes objects say: frozen dataclasses, standard library only."""
