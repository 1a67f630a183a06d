"""HPA specs and statuses from exported series."""
