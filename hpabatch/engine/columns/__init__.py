"""The registry of result columns: name, type, unit and meaning of all that commands write."""
