"""Commands that watch a cluster."""
