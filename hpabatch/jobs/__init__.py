"""Work in parts: shards and settings become tasks, and a folder keeps what they came to."""
