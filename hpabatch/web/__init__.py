"""HTTP of all clients: secrets that no text may show, replies within a size and a time."""
