"""Custom metrics: adapter configuration, KEDA ScaledObjects, mapping files."""
