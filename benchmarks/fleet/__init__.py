"""Generated fleets: large ones drawn from a seed, and the demo."""
