"""The HPA's rules: scalar compiled functions, one HPA and one tick at a time."""
