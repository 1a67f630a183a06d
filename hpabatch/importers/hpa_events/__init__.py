"""Import of recorded HPA events: audit logs and watches."""
