"""Row expressions as Polars expressions."""
