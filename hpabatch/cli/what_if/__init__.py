"""Commands that ask what if."""
