"""Import of tables (CSV, Parquet) by a map file."""
