"""Output of the live loop: logs, metrics endpoint."""
