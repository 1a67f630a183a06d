"""History: the Parquet data set; column registry and strict reader."""
