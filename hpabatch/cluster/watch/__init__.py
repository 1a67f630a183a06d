"""List and watch without gaps; one stream of changes."""
