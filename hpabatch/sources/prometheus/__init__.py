"""What a Prometheus (or Thanos, Mimir, Cortex, VictoriaMetrics) recorded, as a history."""
