"""Commands that look after a history."""
