"""List and watch without gaps; one stream of changes; a cluster as a loop uses it."""
