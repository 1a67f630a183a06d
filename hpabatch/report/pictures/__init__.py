"""Charts of a sweep as Vega-Lite specifications."""
