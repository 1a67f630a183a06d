"""Custom metrics: KEDA ScaledObjects, mapping files."""
