"""One pass of the live loop: pods, lanes, decisions, comparison."""
