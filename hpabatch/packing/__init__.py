"""Objects to arrays: the one place where objects become columns."""
