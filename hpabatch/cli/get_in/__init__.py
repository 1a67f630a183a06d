"""Commands that get data in."""
