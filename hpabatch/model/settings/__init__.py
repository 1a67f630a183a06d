"""Settings of an HPA that a sweep can change; patches."""
