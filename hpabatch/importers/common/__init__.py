"""Frame of all imports: sink, claims, work folder, progress, requests of objects."""
