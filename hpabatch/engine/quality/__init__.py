"""Quality of a recording, per HPA."""
