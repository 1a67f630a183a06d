"""Import from Prometheus and compatible servers."""
