"""Results as tables, JSON, CSV and Parquet: pure functions of the result."""
