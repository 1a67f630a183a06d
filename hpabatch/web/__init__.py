"""HTTP clients: secrets hidden in messages, responses bounded in size and time."""
