"""Fleet of a replay: HPAs, their specs, lives, instants, flags and parameters."""
