"""Input files that people write: manifests, scenarios, plants, prices, grids, policies, quotas."""
