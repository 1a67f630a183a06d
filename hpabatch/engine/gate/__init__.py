"""Gate: two sets of manifests, what changes for whom, and whether that exceeds a limit."""
