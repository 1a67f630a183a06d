"""Commands that look at a history or a manifest."""
