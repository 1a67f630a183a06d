"""Settings of an HPA that a sweep can change, and patches."""
